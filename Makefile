# Everything from a bare clone: Python 3.11 or later and make are all it takes.
PYTHON ?= python3
ENVS ?= .venv
DEMO := $(ENVS)/demo
DEV := $(ENVS)/dev
EXTRAS := $(ENVS)/extras
PIP := -m pip install --quiet --disable-pip-version-check
PACKAGE := pyproject.toml $(shell find misc_cli -name '*.py' -o -path '*/data/*' -type f)

BENCH := benchmarks/.venv
# The report is tested in a real Chromium: fetched where root may, else that test is skipped.
BROWSER := command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	&& (apt-get install -y -q chromium || (apt-get update -q && apt-get install -y -q chromium)) >/dev/null 2>&1; } || echo "no Chromium: the page's tests are skipped"

# Clusters, browsers and databases also fail for reasons of their own: what failed must pass now.
AGAIN = { echo "once more, what failed:"; $(EXTRAS)/bin/python -m pytest tests/extras --last-failed --last-failed-no-failures none; }

.PHONY: docs demo test test-extras test-peers test-pythons check sample bench bench-quick bench-peerannot torture clean

demo: $(DEMO)/ready ## one label per item from the sample; then a crowd where completion helps, one where it does not, and why
	$(DEMO)/bin/misc aggregate sample_data/answers.csv --truth sample_data/truth.csv \
		-o $(DEMO)/labels.csv --workers $(DEMO)/workers.csv --verbose
	@echo && echo "$(DEMO)/labels.csv:" && head -n 6 $(DEMO)/labels.csv
	@echo && echo "Many spammers, ten classes: filling in missing answers (tucker +) helps mv and ds-em"
	$(DEMO)/bin/misc compare sample_data/noisy.csv --truth sample_data/noisy-truth.csv \
		--completers none,tucker --aggregators mv,ds-em,one-coin
	@echo && echo "Four groups that share their confusions: it helps mv, and does not help ds-em"
	$(DEMO)/bin/misc compare sample_data/groups.csv --truth sample_data/groups-truth.csv \
		--completers none,tucker --aggregators mv,ds-em
	@echo && echo "Why the automatic choice fills nothing in, in either:"
	@for crowd in noisy groups; do echo "$$crowd.csv:" && $(DEMO)/bin/misc aggregate sample_data/$$crowd.csv \
		--truth sample_data/$$crowd-truth.csv -o $(DEMO)/$$crowd.labels.csv --verbose 2>&1 | grep -E '^(because|error)'; done
	@echo && echo "The command is $(DEMO)/bin/misc. To have it on your path: pipx install . (or, in a venv, pip install .)"

test: $(DEV)/ready ## the core: needs nothing but Python
	$(DEV)/bin/python -m pytest -n 2 --ignore tests/extras

test-extras: $(EXTRAS)/ready ## what needs a browser, a cluster, Java or a database; says what it skips
	@$(BROWSER)
	$(EXTRAS)/bin/python -m pytest tests/extras -rs || $(AGAIN)

test-peers: $(DEV)/ready ## optional: the test that compares with crowd-kit, which brings 250 MB
	$(DEV)/bin/python $(PIP) -r benchmarks/requirements.txt
	$(DEV)/bin/python -m pytest -k crowd_kit

test-pythons: ## demo and test on 3.11, 3.12 and 3.13, each in environments of its own
	.ci/pythons

docs: $(EXTRAS)/ready ## the site: build/site/index.html, with search, for reading without a network
	NO_MKDOCS_2_WARNING=1 $(EXTRAS)/bin/python -m mkdocs build --quiet
	@echo "open build/site/index.html"

.PHONY: dist
dist: $(EXTRAS)/ready ## a wheel and the sources in dist/, checked
	rm -rf dist build/lib
	$(EXTRAS)/bin/python -m build --outdir dist
	$(EXTRAS)/bin/python -m twine check --strict dist/*

check: $(DEV)/ready
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/mypy

sample: $(DEV)/ready ## the same command as in sample_data/README.md; a test compares the bytes
	$(DEV)/bin/misc simulate --workers 60 --items 500 --class-names bird,cat,dog,fox \
		--answers-per-item 3.6 --accuracy 0.7 --seed 2019 \
		-o sample_data/answers.csv --truth sample_data/truth.csv
	$(DEV)/bin/misc simulate --workers 120 --items 600 --classes 5 --groups 4 --mix experts=1,honest=3 \
		--answers-per-item 6 --accuracy 0.4 --seed 2019 \
		-o sample_data/groups.csv --truth sample_data/groups-truth.csv
	$(DEV)/bin/misc simulate --workers 60 --items 500 --classes 10 --mix experts=1,honest=2,biased=2,spammers=3 \
		--answers-per-item 8 --accuracy 0.45 --seed 2019 \
		-o sample_data/noisy.csv --truth sample_data/noisy-truth.csv

bench: $(BENCH)/ready ## beside the peers up to 10 million answers; ONLY="default budget": only these; AGAINST=checkout: before and after
	$(BENCH)/bin/python benchmarks/run.py $(if $(ONLY),--only $(ONLY)) $(if $(AGAINST),--against $(AGAINST))

bench-quick: $(BENCH)/ready ## the same up to 100 thousand answers (the C kernel, reading: 1 million)
	$(BENCH)/bin/python benchmarks/run.py --quick

.PHONY: ratchet
ratchet: $(DEV)/ready ## what misc writes for some 60 inputs, beside what is pinned; ONLY='*/ds-em*': only these
	$(DEV)/bin/python benchmarks/ratchet.py check $(if $(ONLY),--only '$(ONLY)')

.PHONY: bench-kernels
bench-kernels: $(DEV)/ready ## the methods' processor time beside that of another checkout, AGAINST=…
	$(DEV)/bin/python benchmarks/kernels.py --against $(AGAINST)

.PHONY: bench-scale
bench-scale: $(BENCH)/scale-ready ## local, disk and dask at 50 million answers, peers at 1 million; QUICK=1: 5 million
	$(BENCH)/bin/python benchmarks/scale.py $(if $(QUICK),--quick)

.PHONY: bench-nightly
bench-nightly: $(DEV)/ready ## a simulated year, 365 nights with 2,000 new answers each; takes long
	$(DEV)/bin/python benchmarks/nightly.py

bench-peerannot: ## optional: its torch is large
	$(PYTHON) -m venv benchmarks/.venv-peerannot
	benchmarks/.venv-peerannot/bin/python $(PIP) -r benchmarks/requirements-peerannot.txt

TORTURE ?= minutes
torture: $(DEV)/ready ## signals, kills, damaged input, full disks; TORTURE=quick|minutes|full|every
	$(DEV)/bin/python benchmarks/run_torture.py --size $(TORTURE)

clean:
	rm -rf benchmarks/.venv benchmarks/.venv-peerannot benchmarks/out
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# As a user would have it; a change in the package installs it again.
$(DEMO)/ready: $(DEMO)/bin/python $(PACKAGE)
	rm -rf build
	$(DEMO)/bin/python $(PIP) .
	touch $@

# The peers live in an environment of their own, with the package as a user would have it.
$(BENCH)/ready: $(PACKAGE) benchmarks/requirements.txt
	$(PYTHON) -m venv $(BENCH)
	rm -rf build
	$(BENCH)/bin/python $(PIP) . -r benchmarks/requirements.txt
	touch $@

$(BENCH)/scale-ready: $(BENCH)/ready
	$(BENCH)/bin/python $(PIP) '.[dask,spark]' setuptools
	touch $@

# The tools work on the sources as they are: only a change of the requirements installs again.
$(DEV)/ready: $(DEV)/bin/python pyproject.toml
	$(DEV)/bin/python $(PIP) --editable '.[test,check]'
	touch $@

$(EXTRAS)/ready: $(EXTRAS)/bin/python pyproject.toml
	$(EXTRAS)/bin/python $(PIP) --editable '.[test,extras]'
	touch $@

$(ENVS)/%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "misc needs Python 3.11 or later: make PYTHON=…")'
	$(PYTHON) -m venv $(ENVS)/$*

.PHONY: accuracy
accuracy: $(DEV)/ready ## error, regret and calibration of the automatic choice on ../shared's 21 sets
	OPENBLAS_NUM_THREADS=1 $(DEV)/bin/python benchmarks/accuracy.py --gold
	OPENBLAS_NUM_THREADS=1 $(DEV)/bin/python benchmarks/completion.py

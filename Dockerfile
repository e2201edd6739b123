# misc in a container: small, not root, nothing written but what you ask for.
#   docker build -t misc .
#   docker run --rm --read-only --user "$(id -u)" -v "$PWD:/data" misc aggregate answers.csv -o labels.csv
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY misc_cli misc_cli
RUN python -m venv /opt/misc && /opt/misc/bin/pip install --no-cache-dir .

FROM python:3.13-slim
COPY --from=build /opt/misc /opt/misc
# no HOME is needed and no bytecode is written, so that --read-only works
ENV PATH=/opt/misc/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /data
USER 10001
ENTRYPOINT ["misc"]
CMD ["--help"]

"""What columns are called: names of worker, item and label, and names that are none of these.

Names are compared without case, spaces, underscores, hyphens, dots and colons. Synonyms come in
tiers, the plainest first: the first tier that matches decides (columns.py).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from misc_cli.io import languages

ROLES = ("worker", "item", "label")

_WORKERS = """
worker
workerid assignmentworkerid !amtworkerids amtworkerids amtworkerid
annotatorid performerid raterid labelerid labellerid coderid judgeid contributorid completedby
annotator performer rater labeler labeller coder judge contributor turker reviewer assessor
annotatedby labeledby labelledby answeredby ratedby evaluatorid reviewerid graderid evaluator grader
userid user username createdby participant participantid respondent respondentid prolificpid
annotatorname workername annotatoremail workeremail ratername codername labelername judgename
sessionid
email emailaddress
observer assignee observerid enumerator enumeratorid enumeratorname
submitterid
submittedby submitter submittername
model modelname modelid llm llmname judgemodel labelingfunction labellingfunction
subject subjectid
"""
_ITEMS = """
item
itemid
taskid questionid exampleid objectid documentid docid imageid unitid instanceid sampleid sentenceid
textid tweetid postid commentid reviewid pairid queryid photoid pictureid imgid mediaid assetid
task question example object document doc image unit instance sample picture photo
inputhash hitid assignmenttaskid origid hit
text sentence tweet comment url file filename imagename imageurl imagefile imagefilename imagepath
filepath photourl audiofile videofile
stimulusid utteranceid clipid videoid audioid passageid paragraphid snippetid articleid abstractid
stimulus utterance clip video audio passage paragraph snippet article abstract
patientid frameid caseid patient frame case specimen slide
"""
_LABELS = """
label
answer response annotation judgment judgement choice rating
value class category orig verdict vote decision score grade
labelname classname
prediction predictedlabel predictedclass modelanswer modeloutput output
"""

# A file of known labels speaks of truth, and its bare `id` can only be the item's.
_TRUE_LABELS = (
    "truth gold groundtruth goldlabel truelabel goldanswer correct correctlabel correctanswer\n"
)


def _tiers(text: str) -> list[set[str]]:
    return [set(line.split()) for line in text.strip().splitlines()]


SYNONYMS = {
    "worker": [*_tiers(_WORKERS), *languages.WORKERS],
    "item": [*_tiers(_ITEMS), *languages.ITEMS],
    "label": [*_tiers(_LABELS), *languages.LABELS],
}
TRUE_LABELS = _tiers(_TRUE_LABELS)

# Crowd platforms prefix the requester's own fields; one such field alone is unmistakable.
_PREFIXED = {
    "item": re.compile(r"input[.:]", re.IGNORECASE),
    "label": re.compile(r"(answer\.|output:)", re.IGNORECASE),
}

# A column that is one worker's: rater_1, annotator b sentiment, label.worker3, w7.
WORKER_WORDS = (
    "annotators?|annot|ann|raters?|workers?|coders?|judges?|labell?ers?|reviewers?|experts?|"
    "assessors?|evaluators?|graders?|turkers?|participants?|users?|persons?|performers?|"
    "contributors?|taggers?|crowd|students?|members?|respondents?|subjects?"
)
BETWEEN = r"[\s_\-.:#/]"
NUMBERED_WORKER = re.compile(
    rf"(?:(?P<before>.+?){BETWEEN}+)?(?P<who>(?:{WORKER_WORDS}){BETWEEN}*(?:\d+|[a-z])|[wr]{BETWEEN}?\d+)"
    rf"(?:{BETWEEN}+(?P<after>.+))?",
    re.IGNORECASE,
)

# Columns about the answer, the worker or the tool, by a word of their name; never the answer.
ABOUT = {
    *(
        "time",
        "date",
        "timestamp",
        "ts",
        "duration",
        "seconds",
        "created",
        "updated",
        "submitted",
        "at",
    ),
    *("comment", "comments", "note", "notes", "remark", "reason", "explanation", "rationale"),
    *("confidence", "certainty", "trust", "status", "email", "browser", "device", "country"),
    *("city", "region", "gender", "batch", "version", "reward", "html", "meta", "weight", "age"),
    *("agreement", "session", "channel", "id", "ids", "ip", "index", "unnamed", "split", "fold"),
    *("source", "name", "title", "url", "path", "gold", "truth", "majority", "consensus", "os"),
    *("consent", "row", "uuid", "hash", "position", "order", "accuracy", "count", "n"),
}
_TOOLS_OWN = {
    *languages.TIMES,
    *languages.EMAILS,
    *("id", "createdat", "updatedat", "leadtime", "status"),
    *("comment", "comments", "gold", "text", "confidence", "responseid", "startdate", "enddate"),
    *("collectorid", "datecreated", "datemodified", "ipaddress", "recordeddate", "finished"),
    *("submittime", "yourname", "consent", "age", "gender", "date", "time", "country"),
}


def normalise(name: str) -> str:
    """Without case and punctuation; an accent is one whether it is a letter's part or its own."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
    return re.sub(r"[\s_\-.:]+", "", name).lower()


def words_of(name: str) -> set[str]:
    """The words of a name: created_at, createdAt and "Created at" are created and at."""
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return {word.lower() for word in re.split(r"[\W_\d]+", parts) if word}


def singular(name: str) -> str:
    """annotators → annotator, annotator_ids → annotator_id; unknown words stay as they are."""
    known = {word for tiers in SYNONYMS.values() for tier in tiers for word in tier}
    if normalise(name) in known or normalise(name).removesuffix("s") not in known:
        return name
    return name.strip()[:-1]


def names_of_tools(cells: Sequence[str]) -> int:
    """How many cells are names that only a header has: those of tools, and columns of workers."""
    own = sum(normalise(cell) in _TOOLS_OWN for cell in cells)
    people = [cell for cell in cells if NUMBERED_WORKER.fullmatch(cell.strip())]
    words = [cell for cell in people if re.match(r"\W*[^\W\d_]{3}", cell)]  # w1 may be data
    return own + (len(people) if len(people) > 2 or len(words) > 1 else 0)


def find_roles(
    names: Sequence[str], synonyms: dict[str, list[set[str]]] = SYNONYMS
) -> dict[str, list[int]]:
    """Candidates for each role: the positions that the first matching tier names."""
    known = [normalise(name) for name in names]
    found = {}
    for role, tiers in synonyms.items():
        matches = ([at for at, name in enumerate(known) if name in tier] for tier in tiers)
        found[role] = next(filter(None, matches), [])
        pattern = _PREFIXED.get(role)
        if pattern and not _is_exact(role, found[role], known):
            prefixed = [at for at, name in enumerate(names) if pattern.match(name)]
            # Several inputs describe one task, so its id serves; several answers are a choice.
            if len(prefixed) == 1 or (prefixed and not found[role]):
                found[role] = prefixed
    return found


def _is_exact(role: str, positions: list[int], known: list[str]) -> bool:
    return any(known[at] in (role, role + "id", "hitid") for at in positions)

"""Names of columns: of worker, item and label, and those that are none of these.

Names are compared without case, spaces, underscores, hyphens, dots and colons. Synonyms come in
tiers, the plainest first: the first tier that matches decides (columns.py).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence


def names_in(text: str) -> set[str]:
    return set(text.split())


EMAILS = {"email", "emailaddress"}
ROLES = ("worker", "item", "label")
_NAMES = {
    "worker": """
worker
workerid assignmentworkerid !amtworkerids amtworkerids amtworkerid
annotatorid performerid raterid labelerid labellerid coderid judgeid contributorid completedby
annotator performer rater labeler labeller coder judge contributor turker reviewer assessor
annotatedby labeledby labelledby answeredby ratedby evaluatorid reviewerid graderid evaluator grader
userid user username createdby participant participantid respondent respondentid prolificpid
anonid anonymousid anonworkerid
annotatorname workername annotatoremail workeremail ratername codername labelername judgename ann
sessionid
email emailaddress
observer assignee observerid enumerator enumeratorid enumeratorname
submitterid
submittedby submitter submittername
model modelname modelid llm llmname judgemodel labelingfunction labellingfunction
subject subjectid
""",
    "item": """
item
itemid
subjectids subjectzooniverseid
taskid questionid exampleid objectid documentid docid imageid unitid instanceid sampleid sentenceid
textid tweetid postid commentid reviewid pairid queryid photoid pictureid imgid mediaid assetid
task question example object document doc image unit instance sample picture photo
inputhash hitid assignmenttaskid origid hit
text sentence tweet comment url file filename imagename imageurl imagefile imagefilename imagepath
filepath photourl audiofile videofile
stimulusid utteranceid clipid videoid audioid passageid paragraphid snippetid articleid abstractid
stimulus utterance clip video audio passage paragraph snippet article abstract
patientid frameid caseid patient frame case specimen slide
""",
    "label": """
label
answer response annotation judgment judgement choice rating
value val class category orig verdict vote decision score grade
labelname classname workeranswer workerlabel annotatorlabel useranswer userlabel
prediction predictedlabel predictedclass modelanswer modeloutput output
""",
}
SYNONYMS = {r: [names_in(tier) for tier in t.strip().splitlines()] for r, t in _NAMES.items()}
# A file of known labels speaks of truth, and its bare `id` can only be the item's.
TRUE_LABELS = names_in("""
truth gold groundtruth goldlabel truelabel goldanswer correct correctlabel correctanswer
""")

# Crowd platforms prefix the requester's own fields; one such field alone is unmistakable.
_PREFIXED = {"item": r"(?i)input[.:]", "label": r"(?i)answer\.|output:"}

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

# Who may have written what is judged, rather than judged it.
WEAK_WORKERS = EMAILS | names_in("""
user userid username createdby sessionid name model modelname modelid observer assignee submittedby
submitter submittername submitterid subject subjectid author authorid llm
""")
# Language models that answer as workers do, with whoever serves them before the name.
MODEL = re.compile(
    r"(?:[\w.\-]+[/:])*(?:(?:meta|google|openai|anthropic|us|eu)[.\-_])*(?:"
    r"(?:(?:chat)?gpt|claude|gemini|gemma|(?:code)?llama|mistral|mixtral|qwen|deepseek|vicuna|chatglm)"
    r"(?:[\d\W_][\w.\-:/ ]*)?"
    # these mean other things as well, so a size or a version must follow
    r"|(?:phi|command-?r|grok|falcon|yi|zephyr|olmo|nova|flan|t5|palm|solar|internlm|glm|granite"
    r"|nemotron|jamba|text-davinci|davinci)-[\w.\-:/ ]*\d[\w.\-:/ ]*"
    r"|o[1-9]-(?:mini|preview|pro)[\w.\-]*)",
    re.IGNORECASE,
)
ITEM_NAME = re.compile(
    r"(i|item|task|img|image|q|question|doc|document|tweet|text|t|example|sentence|s|unit|pic|obj|"
    r"object|photo|picture|review|post|clip|id)[\s_-]*\d+"
    r"|.*\.(jpe?g|png|gif|webp|bmp|tiff?|wav|mp3|mp4|txt|pdf)|https?://.*|s3://.*",
    re.IGNORECASE,
)

WORKER_NAME = re.compile(
    r"(w|#w|worker|annotator|ann|rater|user|turker|coder|judge|performer|labell?er|lf)[\s_-]*\d+"
    r"|A[0-9A-Z]{9,14}|[^@\s]+@[^@\s]+\.\w+",
    re.IGNORECASE,
)

# Columns about the answer, the worker or the tool, by a word of their name; never the answer.
ABOUT = names_in("""
time date timestamp ts duration seconds created updated submitted at comment comments note notes
remark reason explanation rationale confidence certainty trust status email browser device country
city region gender batch version reward html meta weight age agreement session channel id ids ip
index unnamed split fold hit assignment worker workerid hitid assignmentid submit active start end
elapsed latency rt feedback useragent link trusted source name title url path gold truth majority
consensus os consent row uuid hash position order accuracy count n span spans offset avg average
mean median std stdev variance delta diff
""")
# Words among these that a thing's name may have, although they mostly tell about something else.
NAMING = names_in("name title url path hash uuid index row id ids order unnamed")
_TOOLS_OWN = EMAILS | names_in("""
timestamp id createdat updatedat leadtime status comment comments gold text confidence responseid
startdate enddate collectorid datecreated datemodified ipaddress recordeddate finished submittime
yourname consent age gender date time country
""")

# A field for remarks is no question, however short the remarks are.
is_remark = re.compile(
    r"(?i)comment|feedback|remark|suggestion|expl(anation|ain)?($|[._])|reason|justif|rationale"
    r"|(^|[._])notes?$|why|describe|(^|[._])other$"
).search
# A word that names a property that is judged, not a person who judges.
is_property = re.compile(
    r"(?i).*(ity|ness|ing|[ts]ion|ment|[ae]nce|[ae]ncy|ful|[ai]ble|ive|ism|al|ic|ous|cy|ude)"
).fullmatch
is_position = re.compile("[1-9][0-9]{,17}").fullmatch


def normalise(name: str) -> str:
    """Return a name without case and punctuation, accents in one spelling."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
    return re.sub(r"[\s_\-.:]+", "", name).lower()


def words_of(name: str) -> set[str]:
    """Return the words of a name: created_at, createdAt and "Created at" are created and at."""
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return {word.lower() for word in re.split(r"[\W_\d]+", parts) if word}


def singular(name: str) -> str:
    """annotators → annotator, annotators_ids → annotatorid; unknown words stay as they are."""
    known = {word for tiers in SYNONYMS.values() for tier in tiers for word in tier}
    forms = (name, re.sub(r"(?i)s\s*$", "", name), re.sub(r"s?ids?$", "id", normalise(name)))
    return next((form for form in forms if normalise(form) in known), name)


def names_of_tools(cells: Sequence[str]) -> int:
    """Return how many cells are names that only a header has: of tools, and columns of workers."""
    tasks = re.compile(r"(Answer|Input)\.[A-Za-z]\S*")  # as Mechanical Turk begins a name
    own = sum(normalise(c) in _TOOLS_OWN or bool(tasks.fullmatch(c.strip())) for c in cells)
    people = [cell for cell in cells if NUMBERED_WORKER.fullmatch(cell.strip())]
    words = [cell for cell in people if re.match(r"\W*[^\W\d_]{3}", cell)]  # w1 may be data
    return own + (len(people) if len(people) > 2 or len(words) > 1 else 0)


def undoubled(names: Sequence[str]) -> list[str]:
    """Return names as a header has them: label for label_2 beside a label, without a label_1."""
    every, first = set(names), [re.sub(r"_([2-9]|[1-9]\d+)$", "", name) for name in names]
    pairs = zip(names, first, strict=True)
    return [own if own in every and f"{own}_1" not in every else name for name, own in pairs]


def find_roles(
    names: Sequence[str], synonyms: dict[str, list[set[str]]] = SYNONYMS
) -> dict[str, list[int]]:
    """Return candidates for each role: the positions that the first matching tier names."""
    known = [normalise(name) for name in undoubled(names)]
    found = {}
    for role, tiers in synonyms.items():
        matches = ([at for at, name in enumerate(known) if name in tier] for tier in tiers)
        found[role] = next(filter(None, matches), [])
        pattern = _PREFIXED.get(role)
        exact = any(known[at] in (role, f"{role}id", "hitid") for at in found[role])
        if pattern and not exact:
            prefixed = [at for at, name in enumerate(names) if re.match(pattern, name)]
            # Several inputs describe one task, so its id serves; several answers are a choice.
            if len(prefixed) == 1 or (prefixed and not found[role]):
                found[role] = prefixed
    return found

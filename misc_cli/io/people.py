"""Given names that are nothing else: columns called alice, bob, carol are people's.

Names that are also words, feelings or months (Joy, Hope, Mark, June) count only beside two others:
a column of that name alone may be a question. Places (Paris) never do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_TEXT = """
aaron abdul abigail adam adrian agnes ahmed aisha akira alan albert alejandro alessandro
alexander alexandra alexis alfred ali alice alicia alina allison amanda amelie amina amir amit
amy ana anastasia anders andre andrea andreas andrei andrew andy angela anil anita anja ankit
ann anna anne annika anthony antoine anton antonio arjun arthur arun ashley astrid ayse barbara
beatrice ben benjamin bernd bernhard beth betty bianca birgit bob boris brandon brian bruno
camille carl carla carlos carmen carol carolina caroline catherine cathy cecilia celine charles
charlie charlotte chloe chris christian christina christine christoph christopher claire clara
claudia clemens colin cristina cynthia daniel daniela danielle darya dave david deborah deepak
dennis derek diana diego dimitri dirk dmitri dmitry dominik donald donna doris dorothy doug
eduardo edward elena eleni elias elisa elisabeth elizabeth ella ellen emil emilia emily emma
enrique eric erica erik erika erin ernesto esther ethan eugene eva evelyn fabian fabio fatima
federico felipe felix fernando filip florian francesca francesco francisco franz fred frederic
frederik friedrich fritz gabriel gabriela gary georg george gerhard giovanni giulia giuseppe
gonzalo greg gregory guido guillaume gustavo hamid hannah hans hao harald harry hassan heather
heidi heike heinz helen helena helga henrik henry hideo hiroshi hugo ian ibrahim igor ilya ines
ingrid irina isaac isabel isabella isabelle ivan jacob jacqueline jacques jakob jakub james
jamie jan jana jane janet jason javier jean jeff jeffrey jelena jennifer jenny jens jeremy jerry
jessica jim joan joanna joao jochen joe joel johan johanna johannes john johnny jonas jonathan
jordi jorge jose josef joseph joshua juan juergen julia julian julie julien justin kamal karen
karin karl karolina katarina kate katharina katherine kathleen katie katja katrin kavita keiko
keith ken kenji kenneth kevin khalid kiran klaus konrad kristin kristina kumar kurt kyle larry
lars laura lauren laurent lea lena leo leon leonardo leonie linda lisa liu lorenzo louis louise
luca lucas lucia lucy luigi luis luisa lukas maja manuel manuela marc marcel marcin marco marcos
marcus margaret maria marie marina mario marion marius markus marta martha martin martina mary
masha mateo mathias matteo matthew matthias maxime megan mehmet melanie melissa meng mia michael
michaela michal michel michelle miguel mika mike mikhail miriam mohamed mohammad mohammed monica
monika muhammad nadia nadine nancy naomi natalia natalie natasha nathan neha nicholas nick
nicola nicolas nicole niels nikhil nikita nikolai nils nina noah nora nour oksana ole oleg olga
oliver olivia omar oscar oskar otto pablo pamela paolo patricia patrick paul paula pauline pavel
pawel pedro peggy peter petra philip philipp philippe pierre piotr pooja prakash priya rachel
rafael rahul raj rajesh ralf ralph ravi raymond rebecca rebekka renate ricardo richard rita
robert roberto rodrigo roger rohan roland ron ronald rudolf ruth ryan sabine sakura sally sam
samantha samir samuel sandra sanjay sara sarah satoshi scott sean sebastian sergei sergey sergio
shirin shreya silke silvia simon simone sofia sonia sophia sophie stefan stefanie stefano
stephanie stephen steve steven sunita susan susanne suzanne sven svetlana sylvia takashi tamara
tanja tanya tatiana teresa theo theresa thomas thorsten tim timo tina tobias todd tom tomas tony
trent uli ulrich ulrike ursula uwe valentina vanessa vera veronica veronika vijay vikram viktor
viktoria vincent vladimir walter wei wendy werner wilhelm william wolfgang xavier xiaoming yan
yasmin yasmine yuki yulia yusuf yvonne zoe zofia
"""
_ALSO_WORDS_TEXT = """
amber april art bill chase dale dawn dean drew eve faith frank gene grace grant guy hope hunter
ivy jack jade jay jordan joy judy june kai kelly kim lee lily mallory mark mason max may maya
milan niaj pat ray rich robin roman rosa rose ruby rupert sandy sky sue sybil taylor ted trudy
victor will xin
"""
_NAMES, _ALSO_WORDS = frozenset(_TEXT.split()), frozenset(_ALSO_WORDS_TEXT.split())
_NAME = re.compile(r"(?P<given>[^\W\d_]+)(?:[ _.\-]+[^\W\d_]+\.?)?")


def given_names(names: Iterable[str]) -> list[str]:
    """Those that are people's: a given name alone, or with one more name behind it."""
    given = {name: _given(name) for name in names}
    sure = [name for name, plain in given.items() if plain in _NAMES]
    if len(sure) < 2:
        return sure
    return [name for name, plain in given.items() if plain in _NAMES or plain in _ALSO_WORDS]


def _given(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name.strip()).encode("ascii", "ignore").decode()
    match = _NAME.fullmatch(plain)
    return "" if match is None else match["given"].lower()

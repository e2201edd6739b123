"""What columns are called in other languages, so that such headers need no flags.

German, French, Spanish, Portuguese, Italian, Dutch, Russian, Japanese, Chinese and Korean. Words
are written as `columns.normalise` leaves them. A word that is something else in English (French
`note`, a mark) is left out.
"""

from __future__ import annotations

import unicodedata

_WORKERS = """
bearbeiter annotierer kodierer codierer bewerter gutachter nutzer benutzer teilnehmer mitarbeiter
annotateur annotatrice évaluateur évaluatrice codeur utilisateur travailleur juge relecteur
anotador evaluador codificador trabajador usuario participante juez revisor etiquetador
avaliador trabalhador usuário utilizador annotatore valutatore codificatore utente giudice
beoordelaar gebruiker medewerker разметчик аннотатор исполнитель пользователь оценщик
作業者 ワーカー アノテーター アノテータ 評価者 回答者 ユーザー
标注员 标注者 标注人 用户 评分者 작업자 라벨러 평가자
"""
_ITEMS = """
bild objekt dokument beitrag aufgabe gegenstand beispiel datei élément tâche exemple objet fichier
imagen elemento documento tarea ejemplo objeto archivo ítem imagem tarefa exemplo arquivo
immagine compito esempio oggetto afbeelding taak объект задание изображение документ картинка
画像 項目 アイテム タスク 文書 图片 图像 任务 样本 条目 文档 항목 이미지 문항
"""
_TEXTS = """
satz texte phrase texto frase testo zin текст предложение 文 テキスト 文章 文本 句子 텍스트 문장
"""
_LABELS = """
bewertung klasse kategorie antwort urteil einstufung étiquette catégorie classe réponse jugement
etiqueta categoría clase respuesta valoración calificación rótulo categoria resposta avaliação
etichetta risposta valutazione giudizio categorie antwoord beoordeling метка класс категория ответ
оценка ラベル 回答 分類 カテゴリ カテゴリー 評価 判定 标签 类别 分类 答案 라벨 레이블 답변 범주
"""
# The first column of a form's responses, and the one that says who answered.
TIMES = {
    *("timestamp", "zeitstempel", "horodateur", "marcatemporal", "informazionicronologiche"),
    *(
        "carimbodedata/hora",
        "tijdstempel",
        "отметкавремени",
        "タイムスタンプ",
        "时间戳记",
        "时间戳",
    ),
    "타임스탬프",
}
EMAILS = {
    *("email", "emailaddress", "emailadresse", "adresseemail", "direccióndecorreoelectrónico"),
    *("correoelectrónico", "indirizzoemail", "endereçodeemail", "emailadres", "メールアドレス"),
    *("电子邮件地址", "адресэлектроннойпочты", "이메일주소"),
}


def _words(text: str) -> set[str]:
    """Each word, also without its accents, as people without the right keyboard write it."""
    return {form for word in text.split() for form in (word, _bare(word))}


def _bare(word: str) -> str:
    """é → e; only in Latin script, where an accent leaves the letter what it is."""
    parts = unicodedata.normalize("NFD", word)
    bare = "".join(part for part in parts if not unicodedata.combining(part))
    return bare if bare.isascii() else word


def _ids(words: set[str]) -> set[str]:
    return {form for word in words for form in (f"{word}id", f"id{word}")}


WORKERS = [_words(_WORKERS) | _ids(_words(_WORKERS))]
ITEMS = [
    _ids(_words(_ITEMS) | _words(_TEXTS)),
    _words(_ITEMS),
    _words(_TEXTS),
]
LABELS = [_words(_LABELS)]

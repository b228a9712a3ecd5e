"""How labels stand in text: opened with, joined, asserted, judged, listed."""

import re
from functools import lru_cache
from typing import Final

from nemo_evaluator.scoring._claims import PLAINLY

# The text of an option becomes one letter of the private use area: nothing in it is taken for the speaker's words.
_TOKEN: Final = 0xE000
_JUNCTION: Final = (
    r"[()\]*.\s\"'}$。]*(?:/|(?<=\w)[-–](?=\w)|,|，|、|;|&|\+|\b(?:or|and|nor|oder|und|ou|et|o|y|или|и|vs\.?)\b"
    r"|或者?|和|または|か|と)+[\s(]*"
    r"(?:(?:or|and|maybe|perhaps|possibly|even|also|probably|option|choice|letter|else)\s+)*[(\[*\"'$]*"
)


class Patterns:
    """The expressions for one set of labels."""

    def __init__(self, labels: str) -> None:
        self.tokens = {chr(_TOKEN + number): label for number, label in enumerate(labels.upper())}
        tokens = "".join(self.tokens)
        both = re.escape("".join(dict.fromkeys(labels.upper() + labels.lower()))) + tokens
        upper = re.escape(labels.upper()) + tokens
        apart = r"(?![A-Za-z0-9_'’])"
        opening = (
            r"[\s*_`~\"'“‘$({\[<>:|#-]*(?:(?:the\s+|either\s+|both\s+|between\s+|one of\s+"
            r"|letter\s+)?(?:correct\s+)?(?:options?|choices?|letters?|answer|вариант|选项|la opción|l['’]option"
            r"|は)\b[\s*_`:\"'(\[]*"
            r"|(?:either|both|between|one of)\s+[(\[*]*)?"
        )
        self.whole = re.compile(rf"{PLAINLY}[*(\[]{{0,3}}(?P<label>[{re.escape(labels.upper())}])[*)\].]{{0,4}}\s*")
        self.opening = re.compile(rf"{opening}([{both}]){apart}", re.IGNORECASE)
        self.joined = re.compile(rf"{_JUNCTION}([{upper}]){apart}")
        noun = r"(?:option|choice|letter|answer|statement|completion|ending|one|alternative)"
        given = rf"[\s:*_`\"'(\[$]*(?:(?:the\s+)?{noun}\s*)?[\s:*_`\"'(\[$]*([{upper}]){apart}(?!\s+[a-z]+ing\b)"
        self.said = re.compile(
            rf"(?:(?:correct|right|best|final|true)\s+{noun}\s*(?:\w+\s+)?(?:is|was|:|would\s+be|must\s+be|should\s+be)"
            rf"|\b(?:choose|chose|select|pick|go(?:ing)?\s+with|opt(?:ing)?\s+for|settled?\s+on|lean(?:ing)?\s+towards?|answer|say|said"
            rf"|mean|leaves|think\s+it['’]s|ans\s*[:.=]|favou?rs|points\s+to|only|entscheide\s+mich\s+für|(?:us|me)\s+with(?:\s+only)?"
            rf"|(?:chang|switch|revis)\w+\s+(?:[\w']+\s+){{0,4}}?(?:from\s+\S{{1,6}}\s+)?to)"
            rf"|\b(?:it|that|this|there)(?:['’]s|\s+(?:is|was|must\s+be|should\s+be|has\s+to\s+be|would\s+be"
            rf"|could(?:\s+also)?\s+be|might(?:\s+also)?\s+be|may\s+be|can\s+only\s+be))"
            rf"|\b(?:my|our)\s+(?:\w+\s+)?(?:choice|pick|selection|guess|vote)\s+(?:is|would\s+be)"
            rf"|\b(?:final|result|conclusion|verdict|choice|selection|pick)\s*[:=]|\b(?:choisis|dirais|wähle|elijo|escojo|выбираю|может\s+быть\s+и)"
            rf"|should\s+be|must\s+be|[-=]>|→|richtig\s+ist|korrekt\s+ist|c['’]est|correcte\s+est|correcta\s+es|(?:corrett?a|certa|giusta)\s+[éè](?:\s+l?a)?(?:\s+(?:letra|lettera|opção|opzione))?"
            rf"|\bes(?:\s+la)?|\A\W*(?:probably|likely|most\s+likely|presumably|definitely|certainly)|应该?选择?|选择?|正确的?是|应该是|Правильный\s+вариант|верный\s+вариант|это)"
            rf"{given}",
            re.IGNORECASE,
        )
        self.judged = re.compile(
            rf"(?<![\w'’])[(\[*]{{0,4}}([{upper}])(?:[)\].:]{{1,4}}[*]{{0,2}}(?:\s+\S[^,;.]{{0,80}}?)?"
            rf"|[)\]*.:]{{0,4}}(?:\s*[{tokens}])?)\s*(?:[:|–—-]\s*)?(?:(?:is|are|must\s+be|would\s+be|seems?"
            rf"|looks)\s+)?(?:also\s+|both\s+)?(?:the\s+)?"
            rf"(?:\w+ly\s+)?(?:correct|right|best|true|accurate|most\s+\w+|only\s+(?:one|option)|it\s+is|fits)\b"
            rf"|(?<![\w'’])[(\[*]{{0,4}}([{upper}])[)\]*.:]{{0,4}}(?:\s*[{tokens}])?[\s|:–—-]*[✅✔☑]",
        )
        self.line = re.compile(
            rf"[ \t*_`~>#\"'-]{{0,12}}(?:option\s+|choice\s+)?(?:[(\[]\s*([{both}])\s*[)\]]"
            rf"|([{upper}])(?:\s*[).:*]|\s*$|\s+[-–—]\s))",
            re.IGNORECASE,
        )
        self.listed = re.compile(
            rf"^(?:[^\n]{{0,80}}:[ \t*]*)?[ \t*_>#-]{{0,8}}[(\[]?([{upper}])[)\].:]{{1,2}}[*_]{{0,2}}[ \t]([^\n]*)",
            re.MULTILINE,
        )
        self.late = re.compile(
            rf"(?:\bis|['’]s|\bbe|\boption|\bchoice|\bletter|[-=]>|→|是|は"
            rf"|:)\s*:?\s*[(\[*]*([{upper}])[)\]*]*(?![\w'’]|\s+[a-z])"
        )
        self.parens = re.compile(rf"[(\[]([{upper}])[)\]]")
        self.single = re.compile(rf"(?<![A-Za-z0-9_'’])([{upper}])(?![A-Za-z0-9_]|['’](?:s|m|ll|d|ve|re)\b|\s+[a-z])")


@lru_cache(maxsize=64)
def patterns_of(labels: str) -> Patterns:
    """The expressions for these labels, compiled once."""
    return Patterns(labels)

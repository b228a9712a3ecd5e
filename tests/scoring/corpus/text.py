"""Names and short phrases for ``fuzzy_match``: a text that states the answer, and texts that only hold it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.scoring.corpus._case import Case, Item, cases

TEMPLATES = {
    "common": (
        "%x", "%x.", "Answer: %x", "**%x**", "The answer is %x.", "It was %x.", "**Answer:** %x", "It is %x, as far as I know.", "\\boxed{\\text{%x}}", "<answer>%x</answer>",
        "I believe that it was %x.", "Answer: %x, because the records say so.", "%x is the answer.", "That would be %x.", "The correct answer is **%x**.", "My answer is %x.",
        "The passage tells of several people and events.\n\nAnswer: %x", "%x (as is widely known)", "Final answer: %x", "Sure! It was %x.", "The person in question is %x.",
        "It was %x who did it.", "This was %x.", "<think>%y?</think>%x", "Antwort: %x", "La réponse est %x.", "La respuesta es %x.", "答案是%x。", "答えは%xです。", "Ответ: %x",
    ),
    "others excluded": (
        "%x, not %y.", "It was %x, not %y.", "%x rather than %y.", "Answer: %x, not %y", "It wasn't %y; it was %x.", "Not %y, but %x.", "The answer is %x instead of %y.",
        "It was not %y but %x.", "Some sources say %y, but the answer is %x.", "Although %y is often named, the answer is %x.", "Answer: %x (not %y)",
        "Unlike what many think, it was not %y. It was %x.", "The answer is %x. %y came second.",
    ),
    "correction": (
        "Answer: %y... wait, no, %x.", "The answer is %y. Actually, no: the answer is %x.", "Answer: %y\n\nOn second thought: Answer: %x", "One might think it was %y, but it was %x.",
        "Answer: %y. Correction: %x.", "The answer is %y. Scratch that, it's %x.", "The answer is %y... Sorry, I mean %x.", "At first I thought it was %y, but it was actually %x.",
        "The answer is %y. Hmm, looking again, it is %x.", "%y? No, %x.",
    ),
    "run on": (
        "Answer: %x\n\nQuestion: Who wrote Faust?\nAnswer: %y", "%x\n\nQuestion: Who found it?\nAnswer: %y", "The answer is %x.\n\nQ: Who came second?\nA: The answer is %y.",
        "Answer: %x\n\nPassage: Long ago there was a king.\nQuestion: Who was it?\nAnswer: %y",
    ),
    "no commitment": (
        "%y or %z", "The answer is %y or %z.", "Either %y or %z.", "Answer: %y or maybe %z", "It was %y, or possibly %z.", "Perhaps %y, perhaps %z.", "%y/%z",
        "It could be %y, but it could also be %z.", "The candidates are %y and %z.", "Was it %y?", "Is it %y or %z?", "It is between %y and %z.", "Some say %y, others say %z.",
        "Answer: %y (or %z)", "Maybe %y. Maybe %z.", "If not %z, then %y.",
    ),
    "negated": (
        "It was definitely not %y.", "It was not %y.", "Anyone but %y.", "It can't have been %y.", "The answer is not %y.", "%y is wrong.", "It was never %y.",
        "Not %y.", "Some sources say %y.", "I doubt that it was %y.", "Answer: not %y", "Es war nicht %y.", "Ce n'était pas %y.", "No fue %y.", "不是%y。", "Это не %y.",
        "Answer: %y. Wait, that is wrong.", "%y is often named, but that is incorrect.",
    ),
    "refusal": (
        "I cannot answer this question about %y.", "I don't know whether it was %y.", "The passage does not say whether it was %y.", "There is no information about who %y was.",
        "I'm sorry, but I can't tell whether %y did it.", "It is unclear whether %y was involved.", "%q", "%p", "%q %p", "I'm not sure if it was %y.",
    ),
    "containment": (
        "Ada Byron was there first, then came %y, and in the end everyone went home after a long and tiring day of talks.", "There were many people there: Ada Byron, %y, Olaf Palme and Chen Wei.",
        "Answer: Ada Byron and %y", "Answer: Ada Byron, %y, Olaf Palme", "Ada Byron met %y in the town, and they talked about the plans for the coming year.", "Answer: %x, the friend of %y",
        "Ada Byron, who was later followed by %y.", "The talk was held by Ada Byron. In the audience sat %y.", "Answer: %y, Ada Byron, Olaf Palme", "%y and Ada Byron", "Answer: %z and %y",
        "It was %x. Later %y took over.",
    ),
}  # fmt: skip

_PASSAGE = "In spring the talks began. %s spoke first, and then %s took the chair, while %s kept the minutes. Nobody else said a word."
_NAMES = (
    ("Hannah Arendt", "Karl Jaspers", "Hans Jonas"), ("Paris", "Lyon", "Marseille"), ("Hines Ward", "Jerome Bettis", "Ben Roethlisberger"), ("copper", "zinc", "tin"),
    ("the Ottoman Empire", "the Republic of Venice", "the Papal States"), ("Marie Curie", "Lise Meitner", "Irene Joliot"), ("photosynthesis", "respiration", "osmosis"), ("Lake Victoria", "Lake Malawi", "Lake Chad"),
)  # fmt: skip


def text_cases() -> Iterator[Case]:
    """All cases for ``fuzzy_match``."""
    items = []
    for right, *wrong in _NAMES:
        passage = _PASSAGE % (wrong[0], right, wrong[1])
        question = f"Which name, of {right} and of others, does the record put first?"
        slots = {"%q": question, "%p": passage}
        items.append(
            Item(
                right,
                right,
                (wrong[0], wrong[1]),
                {"question": question, "passage": passage},
                slots,
            )
        )
    yield from cases("fuzzy_match", TEMPLATES, items, share=2)

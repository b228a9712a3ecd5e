"""Answers that are names and spans, written without a look at the grammar: for fuzzy_match and the span of reading benchmarks."""

from __future__ import annotations

from collections.abc import Iterator

from tests.scoring.corpus._case import Case, Item, cases

SPANS = {
    "common": [
        "%x",
        "%x.",
        "**%x**",
        "Answer: %x",
        "**Answer:** %x",
        "**Answer: %x**",
        "Final answer: %x",
        "The answer is %x.",
        "The passage gives the dates and the place.\n\nAnswer: %x",
        "Let me think step by step. Some candidates are %y and %z. The description fits only one of them.\n\nAnswer: %x",
        'Answer: "%x"',
        "\\boxed{\\text{%x}}",
        '{"answer": "%x"}',
        "<answer>%x</answer>",
        "### Answer\n%x",
    ],
    "correction": [
        "Answer: %y\n\nWait, that was somebody else's question.\n\nAnswer: %x",
        "The answer is %y. No, sorry, the answer is %x.",
        "Answer: %y... scratch that, %x",
        "At first I thought of %y. On reflection the answer is %x.",
        "The answer is %y. Actually, it is %x.",
    ],
    "contrast": [
        "Answer: %x, not %y",
        "Answer: not %y but %x",
        "The answer is %x rather than %y.",
        "It was not %y. The answer is %x.",
    ],
    "several": [
        "Answer: %y or %z",
        "Answer: %y / %z",
        "Answer: %y (possibly %z)",
        "The answer could be %y or %z.",
        "Answer: either %y or %z",
        "Candidates are %y and %z.",
        "%y? %z?",
        "Answer: %y, though some say %z, and I cannot decide.",
    ],
    "uncommitted": [
        "Answer: not %y",
        "Answer: unknown (the passage only mentions %y)",
        "I do not know whether it is %y.",
        "The passage mentions %y and then goes on to",
        "Some sources say %y.",
        "Answer: I'm not sure, but it isn't %y.",
        "Sorry, I can't answer that question about %y.",
        "%q",
        "Answer:",
        "Was it %y?",
        "Answer: anything except %y",
    ],
    "run-on": [
        "Answer: %x\n\nQuestion: Who came second?\nAnswer: %y",
        "%x\n\nQ: And the other one?\nA: %y",
        "<think>Could be %y. The answer is %y.</think>\nAnswer: %x",
        "Answer: %x\n\nPassage: The next text is about %y.\nQuestion: What is it about?\nAnswer: %y",
    ],
    "languages": [
        "Antwort: %x",
        "Réponse : %x",
        "Respuesta: %x",
        "答案：%x",
        "Ответ: %x",
        "Antwort: nicht %y",
    ],
}
SENTENCES = {
    "sentence": [
        "It's %x.",
        "That would be %x.",
        "The answer you're looking for is %x, I believe.",
        "I think it was %x.",
        "%x is the correct answer.",
        "It must have been %x, since nothing else fits the description.",
        "Great question! The answer is **%x**.",
        "Based on the clues, %x.",
        "%x (I'm fairly confident).",
        "Most likely %x.",
        "If I had to guess: %x.",
        "While many people think of %y, it is in fact %x.",
        "You may be thinking of %y, but the answer is %x.",
        "It was %x who is meant here; %y is unrelated.",
        "Unlike %y, %x fits the clue.",
        "%x, of course!",
        "Es ist %x.",
        "C'est %x, pas %y.",
        "La respuesta es %x.",
        "答案是%x。",
    ],
    "sentence traps": [
        "It definitely wasn't %y.",
        "I would exclude %y.",
        "It is a matter of debate: some name %y, others %z.",
        "%y comes to mind, and so does %z.",
        "I know %y, but that isn't what is asked here.",
        "It's either %y or %z, I'm not sure which.",
        "People often confuse this with %y.",
        "There are several candidates: %y, %z and a few more.",
        "If the question were about something else, I'd say %y.",
        "It's hard to say. %y was involved, but so was %z.",
        "No, it isn't %y.",
        "This has nothing to do with %y.",
        "I can't tell you that, but have you heard of %y?",
        "Everybody but %y.",
        "Es war nicht %y.",
        "Ce n'est pas %y.",
        "不是%y。",
    ],
}
ITEMS = [
    Item("Marie Curie", "Marie Curie", ("Lise Meitner", "Rosalind Franklin")),
    Item("Lake Victoria", "Lake Victoria", ("Lake Tanganyika", "Lake Malawi")),
    Item("carbon dioxide", "carbon dioxide", ("oxygen", "nitrogen")),
    Item("1969", "1969", ("1968", "1972")),
    Item("The Night Watch", "The Night Watch", ("Girl with a Pearl Earring", "The Milkmaid")),
]
QUESTIONS = (
    "Which of them, Marie Curie among others, won two prizes in different sciences?",
    "Is Lake Victoria or another one the largest lake of Africa?",
    "Plants take up which gas: oxygen, carbon dioxide or nitrogen?",
    "In the years from 1957 to 1969, when was the first landing on the Moon?",
    "Who painted The Night Watch, and what is his best-known painting called?",
)


def _items() -> Iterator[Item]:
    for item, question in zip(ITEMS, QUESTIONS, strict=True):
        known = {
            "question": question,
            "correct_answers": [item.right],
            "answers": [[item.right]],
        }
        yield Item(item.target, item.right, item.wrong, known, {"%q": question})


def blind_text_cases() -> Iterator[Case]:
    """Spans for every scorer of texts, whole sentences for the one that finds an answer in them."""
    items = list(_items())
    yield from cases("fuzzy_match", SPANS | SENTENCES, items, share=3)
    for offset, name in enumerate(("triviaqa", "drop", "squad_v2")):
        yield from cases(name, SPANS, items[offset:], share=3)

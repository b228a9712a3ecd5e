"""Letters: what models write when they pick one, weigh several, or pick none."""

from __future__ import annotations

from collections.abc import Iterator

from tests.scoring.corpus._case import Case, Item, cases

TEMPLATES = {
    "common": (
        "%x", "%x.", "(%x)", "**%x**", "%x) %X", "%x. %X", "Answer: %x", "Answer: (%x)", "**Answer: %x**", "**Answer:** %x",
        "The answer is %x.", "The correct answer is (%x) %X.", "The correct answer is **%x) %X**.", "$\\boxed{%x}$",
        "\\boxed{\\text{%x}}", "Final answer: %x", "<answer>%x</answer>", "### Answer\n\n%x", '{"answer": "%x"}',
        "Option %x is correct.", "I choose %x.", "I would go with option %x.", "%o\n\nAnswer: %x",
        "The best choice is %x: %X.", "The answer is %X.", "Therefore, the correct option is %x.", "So the answer must be %x",
        "%q\n\n%o\n\nLet us think. The second part rules out most of them.\n\nAnswer: %x", "Sure! The correct answer is %x.",
        "Answer: %x\n\nLet me know if you have any further questions!", "The correct choice would be %x, %X.",
        "Let's think step by step. The key fact is well known.\n\n**Final Answer: (%x)**", "Answer: %x) %X",
        "I'm confident that the answer is %x.", "It's %x.", "My answer: %x", "Correct answer: **%x**",
        "Thus, option (%x) %X is the right one.", "The answer is probably %x.", "I think it's %x.", "(%x) %X is the answer.",
        "<think>Maybe %y? No.</think>\n\nAnswer: %x", "%x is correct.", "Answer - %x", "ANSWER: %x", "answer: %x",
        "Of the options given, %x best describes it.\n\nAnswer: %x", "The right answer here is option %x (%X).",
    ),
    "others excluded": (
        "The answer is %x, because %y is wrong.", "%y is wrong because it is too vague, so the answer is %x.",
        "Option %y can be excluded. Option %x is correct.", "The answer is %x, not %y.", "The answer is not %y but %x.",
        "It is %x rather than %y.", "I'd pick %x over %y.", "While %y is tempting, %x is the right answer.",
        "Answer: %x\n\nWhy not %y? Because it confuses two things.", "%y looks plausible, but the correct answer is %x.",
        "- %y: incorrect, since it came later.\n- %z: incorrect, no source says so.\n- %x: correct.\n\nSo %x it is.",
        "Although many would say %y, the answer is %x.", "Not %y. The answer is %x.", "The answer isn't %y; it's %x.",
        "Eliminating %y and %z leaves %x. Answer: %x", "The answer is %x. Option %y is a common misconception.",
        "%x is the correct answer. %y is incorrect because it does not fit, and %z is irrelevant.",
        "Answer: %x (not %y)", "It can't be %y, so I choose %x.", "I rule out %y. I rule out %z. My answer is %x.",
        "Unlike %y, option %x satisfies every condition, so the answer is %x.", "Answer: %x instead of %y.",
        "Neither %y nor %z fits. The correct answer is %x.", "The correct option is %x; %y would only hold in winter.",
    ),
    "correction": (
        "Answer: %y... wait, no, %x.", "The answer is %y. Hmm, looking again, I should choose %x instead.",
        "One might think the answer is %y, but it is %x.", "Answer: %y\n\nWait, let me reconsider. Answer: %x",
        "The answer is %y. Actually, no: the answer is %x.", "At first I thought the answer was %y, but it is actually %x.",
        "I initially chose %y; however, on reflection the answer is %x.", "Answer: %y. Correction: %x.",
        "The answer is %y. Scratch that, it's %x.", "My first guess was %y. The correct answer is %x.",
        "Answer: %y\n\nOn second thought, it should be %x.", "The answer is %y... Sorry, I mean %x.",
        "It seems that the answer is %y. But a closer look shows that %x is correct.", "%y? No, %x.",
        "Answer: %y\nHmm, that is wrong. The right answer is %x.", "The answer is %y, or rather %x.",
        "I said %y, but I made a mistake. I should have said %x.", "The answer is %y. Wait. I misread the question. It's %x.",
        "Many people think the answer is %y. In fact it is %x.", "Answer: %y -> after checking: %x",
        "The obvious answer is %y, but that is a trap: the correct answer is %x.",
    ),
    "run on": (
        "Answer: %x\n\nQuestion: What is the capital of Peru?\nA) Lima\nB) Quito\nC) Bogota\nD) La Paz\n\nAnswer: %y",
        "%x\n\nQuestion: Which gas do plants take in?\nA) Oxygen\nB) Carbon dioxide\nC) Helium\nD) Neon\nAnswer: %y",
        "The answer is %x.\n\nQ: Who wrote Faust?\nA: The answer is %y.", "Answer: %x\n\n---\n\n**Question 2:** Which is a prime?\n\nAnswer: %y",
        "Answer: %x\n\nHuman: And this one? Which is red?\n\nAssistant: Answer: %y",
        "Answer: %x\n\nWhich of these is a mammal?\n\nA) Trout\nB) Whale\nC) Newt\nD) Wren\n\nAnswer: %y",
        "Answer: %x\n\nProblem: Pick the odd one out.\nAnswer: %y\n\nProblem: Pick the even one.\nAnswer: %z",
        "Answer: %x\n\nNext question: Which is the largest ocean?\nAnswer: %y",
        "Answer: %x<|im_end|>\n<|im_start|>user\nWhich is larger?<|im_end|>\n<|im_start|>assistant\nAnswer: %y",
    ),
    "languages": (
        "Die richtige Antwort ist %x.", "Die Antwort lautet (%x) %X.", "Antwort: %x", "Nicht %y, sondern %x.", "Richtig ist %x, nicht %y.",
        "Die Antwort ist nicht %y, sondern %x.", "La bonne réponse est %x.", "Réponse : %x", "La réponse est %x et non %y.",
        "La réponse n'est pas %y mais %x.", "La respuesta correcta es %x.", "Respuesta: %x", "La respuesta no es %y, sino %x.",
        "La respuesta es la opción %x.", "正确答案是%x。", "答案：%x", "答案不是%y，而是%x。", "选%x。", "应该选择%x，而不是%y。",
        "正解は%xです。", "答え：%x", "答えは%yではなく%xです。", "Правильный ответ: %x.", "Ответ: %x", "Ответ не %y, а %x.",
        "Правильный вариант %x.", "Antwort: %y. Moment, nein: %x.", "La réponse est %y. Non, attendez, c'est %x.",
        "Respuesta: %y. Espera, no: %x.", "答案是%y。等等，不对，答案是%x。", "Ответ: %y. Нет, подождите, ответ %x.",
        "Man könnte meinen, die Antwort sei %y, aber richtig ist %x.", "Jawaban: %x", "A resposta correta é %x.", "정답은 %x입니다.",
    ),
    "no commitment": (
        "The answer is %y or maybe %z.", "The answer is %y or %z.", "Either %y or %z.", "It's between %y and %z.", "%y/%z",
        "Answer: %y, %z", "Answer: %y or %z", "Both %y and %z are correct.", "The answer is A, B, C or D.", "Answer: A/B/C/D",
        "I'm torn between %y and %z.", "It could be %y, but it could also be %z.", "%o", "%q\n\n%o", "Answer: A, B, C, D",
        "The answer might be %y, or possibly %z.", "Perhaps %y. Perhaps %z.", "Answer: %y and %z",
        "Options %y and %z are both plausible.", "A) %A\nB) %B\nC) %C", "Answer: %o", "Let's look at each option.\n\n%o",
        "The answer is either (%y) or (%z), depending on the definition.", "%y and %z both seem right to me.",
        "I would say %y or %z.", "Answer: %y (or %z)", "Maybe %y, maybe %z.", "The answer is one of %y and %z.",
        "If the first reading holds, the answer is %y; otherwise it is %z.", "%y? %z? Hard to say.", "Is the answer %y? Or %z?",
    ),
    "cut off": (
        "A) %A: this would require that the", "Let's consider each option.\n\nA) %A: this would mean that", "Option A says that %A. To check this, we",
        "First, option A. If %A were right, then the", "**A) %A**: This option suggests that the",
        "Let me analyze the options:\n- A) %A - this is about the\n- B) %B - this one", "To find the answer, we look at A first. It",
        "The answer depends on whether A",
    ),
    "refusal": (
        "I cannot answer this question.", "I'm sorry, but I can't help choosing between A, B, C and D.", "I don't know whether it is %y.",
        "There is not enough information to choose %y.", "As an AI, I cannot determine whether %y is correct.",
        "None of the options is correct, not even %y.", "I'm not sure if the answer is %y.", "The question cannot be answered; %y is only a guess of others.",
        "I refuse to pick an option.", "It is impossible to say whether the answer is %y.", "No answer.", "Sorry, I am unable to choose an option such as %y.",
    ),
    "negated": (
        "I would not choose %y.", "The answer is not %y.", "%y is not correct.", "It is definitely not %y.", "%y is wrong.",
        "Option %y is incorrect.", "The answer cannot be %y.", "Anything but %y.", "The answer isn't %y.", "It can't be %y.",
        "%y is not the answer.", "Not %y.", "A common wrong answer is %y.", "The wrong answer is %y.", "Some students answer %y.",
        "I doubt that the answer is %y.", "The answer is never %y.", "Answer: not %y", "Choosing %y would be a mistake.", "Don't choose %y.",
        "An incorrect answer would be %y.", "It is false that %y is correct.", "Option %y does not fit.", "We can rule out %y.",
        "Die Antwort ist nicht %y.", "La réponse n'est pas %y.", "La respuesta no es %y.", "答案不是%y。", "答えは%yではありません。", "Ответ не %y.",
        "Answer: %y. Wait, that is wrong.", "The answer is %y. No, that cannot be right.",
    ),
    "format echoed": (
        "Answer: $LETTER", "The last line of your response should be of the following format: 'Answer: $LETTER' where LETTER is one of ABCD.",
        "Answer the following multiple choice question.\n\n%q\n\n%o", "Answer: [A-D]", "I will answer with one of A, B, C, D.",
        "Please choose A, B, C or D.",
    ),
}  # fmt: skip

_QUESTIONS = (
    ("Which planet is the largest?", ("Mars", "Jupiter", "Venus", "Saturn")),
    ("Who painted the ceiling of the Sistine Chapel?", ("Raphael", "Titian", "Michelangelo", "Leonardo")),
    ("Which of these is a noble gas?", ("argon", "nitrogen", "chlorine", "oxygen")),
    ("Why is the sky blue at noon?", ("The sea reflects into it", "Dust absorbs red light", "Ozone glows", "Short waves scatter more")),
    ("What does a barometer measure?", ("humidity", "air pressure", "wind speed", "rainfall")),
    ("A train leaves at noon at 60 km/h. How far is it at 2 pm?", ("60 km", "90 km", "120 km", "240 km")),
)  # fmt: skip
_RIGHT = "BCADBC"


def choice_cases() -> Iterator[Case]:
    """All cases for ``multichoice_regex``."""
    items = []
    for (question, options), right in zip(_QUESTIONS, _RIGHT, strict=True):
        texts = dict(zip("ABCD", options, strict=True))
        wrong = [letter for letter in "ABCD" if letter != right]
        shown = "\n".join(f"{letter}) {text}" for letter, text in texts.items())
        slots = {
            "%o": shown,
            "%q": question,
            **{f"%{letter}": text for letter, text in texts.items()},
        }
        metadata = {"question": question, "choices": list(options)}
        items.append(Item(right, right, (wrong[0], wrong[2]), metadata, slots, texts))
    yield from cases("multichoice_regex", TEMPLATES, items, share=2)

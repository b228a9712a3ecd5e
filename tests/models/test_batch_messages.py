"""Chat requests as Anthropic's messages, and back."""

import pytest

from nemo_evaluator.core.errors import RequestRejectedError
from nemo_evaluator.models.batch.messages import chat_of_message, to_messages

CHAT = {
    "model": "m",
    "max_completion_tokens": 9,
    "temperature": 0.5,
    "stop": "END",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "image_url", "image_url": {"url": "https://host/a.png"}},
            ],
        },
    ],
}


def test_a_request_keeps_everything_it_says():
    made = to_messages(CHAT)
    assert made["system"] == "Be brief."
    assert (made["max_tokens"], made["temperature"], made["stop_sequences"]) == (9, 0.5, ["END"])
    assert made["messages"][0]["content"][1]["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": "AAAA",
    }
    assert made["messages"][0]["content"][2]["source"] == {
        "type": "url",
        "url": "https://host/a.png",
    }


@pytest.mark.parametrize(
    ("change", "said"), [({"seed": 1}, "seed"), ({"max_completion_tokens": None}, "max_tokens")]
)
def test_what_has_no_word_there_is_refused(change: dict, said: str):
    with pytest.raises(RequestRejectedError, match=said):
        to_messages(CHAT | change)


def test_an_answer_keeps_text_reasoning_end_and_tokens():
    usage = {"input_tokens": 5, "cache_read_input_tokens": 3, "output_tokens": 2}
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "A cat."},
    ]
    chat = chat_of_message(
        {"model": "m", "content": content, "stop_reason": "max_tokens", "usage": usage}
    )
    choice = chat["choices"][0]
    assert choice["message"] == {
        "role": "assistant",
        "content": "A cat.",
        "reasoning_content": "hm",
    }
    assert choice["finish_reason"] == "length"
    assert chat["usage"]["prompt_tokens"] == 8
    assert chat["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}

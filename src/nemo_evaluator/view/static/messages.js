// Messages of a conversation, as they were sent; images only where they are ones.
import { asJson, asText, further, size, visible } from "./format.js";
import { html, useState } from "./lib.js";
import { Text } from "./text.js";

const INLINE_IMAGE = /^data:image\/(png|jpe?g|gif|webp);base64,[\w+/=\s]+$/;
const MOST_OF_A_URL = 200;

/** All messages; `where` is the address of the row, with the lengths of texts that were cut. */
export function Messages({ messages, where }) {
  return (messages || []).map((message, position) => {
    return html`<${Message} message=${message} where=${where} path=${`sent/${position}`} />`;
  });
}

/** A message: who says it, its content, and the tools that it calls. */
function Message({ message, where, path }) {
  const role = visible(message.role);
  const calls = message.tool_calls;
  return html`<div class=${`message ${role}`}>
    <h4>${role}${further(visible(message.name))}</h4>
    <${Content} message=${message} where=${where} path=${`${path}/content`} />
    ${calls && html`<pre>${visible(asJson(calls))}</pre>`}
  </div>`;
}

/** The content of a message: a text, or a list of parts. */
function Content({ message, where, path }) {
  const { content, role } = message;
  if (Array.isArray(content)) {
    return content.map((part, number) => {
      return html`<${Part} part=${part} where=${where} path=${`${path}/${number}/text`} />`;
    });
  }
  return html`<${Text}
    text=${asText(content ?? "")}
    where=${where}
    path=${path}
    markdown=${false}
    label=${`message of ${role}`}
  />`;
}

/** A part of a message: an image or a text; another kind is shown as JSON. */
function Part({ part, where, path }) {
  const url = part?.image_url?.url ?? part?.image_url;
  if (typeof url === "string") {
    return html`<${Picture} url=${url} />`;
  }
  const text = typeof part?.text === "string" ? part.text : JSON.stringify(part);
  return html`<${Text} text=${text} where=${where} path=${path} markdown=${false} />`;
}

/** An image that is part of the message; one from elsewhere is only named, never loaded. */
function Picture({ url }) {
  const [isBroken, setIsBroken] = useState(false);
  if (!INLINE_IMAGE.test(url)) {
    return html`<p class="note">image at ${visible(url.slice(0, MOST_OF_A_URL))}</p>`;
  }
  if (isBroken) {
    return html`<p class="note">an image that cannot be shown (${size(url.length)})</p>`;
  }
  return html`<img
    class="picture"
    src=${url}
    alt="image of the problem"
    onError=${() => setIsBroken(true)}
  />`;
}

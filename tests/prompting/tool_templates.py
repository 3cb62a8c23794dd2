"""Chat templates with tools, in the formats the families document, and a bundled model's file with one of them."""

from pathlib import Path

from tests.backends.altered import NUMBERS, altered

HERMES = """{%- if tools %}
{{- '<|im_start|>system\n' }}
{%- if messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}{% endif %}
{{- 'You may call these functions:\n<tools>' }}
{%- for tool in tools %}{{ '\n' + tool | tojson }}{% endfor %}
{{- '\n</tools>\nAnswer a call as <tool_call>\n{"name": ..., "arguments": ...}\n</tool_call><|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson }}
{{- '}\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

LLAMA = """{%- if tools %}
{{- '<|im_start|>system\nRespond with {"name": function name, "parameters": its arguments} to call one of:\n' }}
{%- for tool in tools %}{{ tool | tojson(indent=4) + '\n' }}{% endfor %}
{{- '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.tool_calls %}
{{- '<|im_start|>assistant\n' }}
{%- set call = message.tool_calls[0].function %}
{{- '{"name": "' + call.name + '", "parameters": ' + call.arguments | tojson + '}<|im_end|>\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>ipython\n' + message.content | tojson + '<|im_end|>\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

MISTRAL = """{%- for message in messages %}
{%- if message.role == 'user' %}
{%- if tools and loop.last %}{{ '[AVAILABLE_TOOLS]' + tools | tojson + '[/AVAILABLE_TOOLS]' }}{% endif %}
{{- '[INST] ' + message.content + '[/INST]' }}
{%- elif message.tool_calls %}
{{- '[TOOL_CALLS] [' }}
{%- for call in message.tool_calls %}
{%- if call.id | length != 9 %}{{ raise_exception('Tool call IDs must have nine characters') }}{% endif %}
{{- '{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson }}
{{- ', "id": "' + call.id + '"}' + (', ' if not loop.last else '') }}
{%- endfor %}
{{- ']' + eos_token }}
{%- elif message.role == 'tool' %}
{{- '[TOOL_RESULTS] {"content": ' + message.content | tojson + ', "call_id": "' + message.tool_call_id + '"}' }}
{{- '[/TOOL_RESULTS]' }}
{%- elif message.role == 'assistant' %}{{ ' ' + message.content + eos_token }}
{%- endif %}
{%- endfor %}"""

TEMPLATES = {"hermes": HERMES, "llama": LLAMA, "mistral": MISTRAL}


def copy_with_template(source: Path, target: Path, template: str, for_tools: str | None = None) -> None:
    """The model at `source` as `target`, with another chat template, and one for conversations with tools."""
    changes = {"tokenizer.chat_template": template, "general.name": target.stem}
    if for_tools is not None:
        changes["tokenizer.chat_template.tool_use"] = for_tools
    altered(source, target, {key: (value, NUMBERS.STRING) for key, value in changes.items()})

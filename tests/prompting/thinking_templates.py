"""Chat templates of models that think, in the ways that families switch it and keep thoughts, small."""

SWITCHED = """{%- for m in messages %}
{%- if m.role == 'assistant' and m.reasoning_content and loop.index0 > last | default(-1) %}
{{- '<|im_start|>assistant\n<think>\n' + m.reasoning_content + '\n</think>\n\n' + m.content + '<|im_end|>\n' }}
{%- else %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}{% endif %}
{%- endif %}"""

OPENED = """{%- if not thinking is defined %}{% set thinking = true %}{% endif %}
{%- for m in messages %}
{%- set said = m.content.split('</think>')[-1] if m.role == 'assistant' else m.content %}
{{- '<|im_start|>' + m.role + '\n' + said + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' + ('' if thinking else '\n</think>\n\n') }}
{%- endif %}"""

EFFORT = """{%- if reasoning_effort is not defined %}{% set reasoning_effort = 'medium' %}{% endif %}
{%- if reasoning_effort not in ['low', 'medium', 'high', 'none'] %}{{ raise_exception('no such effort') }}{% endif %}
{{- 'Reasoning: ' + reasoning_effort + '\n' }}
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

PARTS = """{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\n' }}
{%- if m.content is string %}{{ m.content }}{% else %}
{%- for part in m.content %}
{{- '[THINK]' + part.thinking + '[/THINK]' if part.type == 'thinking' else part.text }}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

TEMPLATES = {"switched": SWITCHED, "opened": OPENED, "effort": EFFORT}

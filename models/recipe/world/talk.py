"""Small talk: greetings, thanks, goodbyes, who the model is and what it can do.

Held out are some wordings of each kind.
"""

import random

from .split import Item, Part, choose, draw_until, is_kept_out

TALK = {
    "greeting": (("[Hello|Hi|Hey|Good morning|Good evening|Good afternoon][!|.|| there!| OmniDraft!| you!]",
                  "[Hello|Hi|Hey][,|!] [how are you|how is it going|nice to meet you|can you hear me|"
                  "are you there][?|]"),
                 "Hello! I am a small demonstration model. Ask me for a sum, a small Python function, "
                 "something about OmniDraft or an everyday fact."),
    "who": (("[Who|What] are you[?|, please?| really?]", "What is your name[?|, please?]",
             "[Please tell|Tell] me [who|what] you are.",
             "[Are you a|Is this a] [robot|computer|person|human|real person|program]?",
             "Introduce yourself[.|, please.]",
             "Who [made|built|trained|created] you?", "[What kind of|Which] model are you?",
             "Am I talking to a [human|machine|person]?"),
            "I am a small demonstration model that came with OmniDraft. This project trained me from scratch."),
    "can": (("What can you do[?| for me?]", "What [do you know|are you good at|can I ask you|should I ask you]?",
             "How can you help[?| me?]", "[Help|Help!|Help me.|Can you help me?|I need help.]",
             "What [topics|things|questions] do you know?"),
            "I can do sums up to 100, write small Python functions, answer questions about OmniDraft and give "
            "everyday facts such as capitals, colors and opposites."),
    "thanks": (("[Thanks|Thank you|Many thanks|Thanks a lot|Thank you very much|Great, thanks|Perfect, thank you]"
                "[!|.|]",
                "[That helped|That was helpful|That is right|Well done|Very good|Nice|Great answer]"
                "[!|. Thanks.|, thank you.|.]"),
               "You are welcome! Is there anything else?"),
    "bye": (("[Bye|Goodbye|See you|Good night|See you later|That is all|I have to go now]"
             "[!|.|, bye.|, thanks.]",
             "No, [thanks|thank you|that is all][!|.| for now.]"),
            "Goodbye! Come back any time."),
    "wrong": (("[That is wrong|This is not right|I do not think so|Are you sure|You are wrong][!|.|?|, I think.]",),
              "I may be wrong: I am a small demonstration model. Please check what I say."),
    "how": (("How are you[?| today?| doing?]", "How do you feel[?| today?]", "[What is up|How is life][?|]"),
            "I am a program, so I have no feelings, but I am ready. What would you like to know?"),
}  # fmt: skip


def draw(rng: random.Random, part: Part, kind: str | None = None) -> Item:
    def make() -> Item | None:
        chosen = kind or rng.choice(list(TALK))
        patterns, answer = TALK[chosen]
        pattern = rng.choice(patterns)
        text, taken = choose(pattern, rng)
        if is_kept_out(f"{pattern} {taken}") != (part == "held-out"):
            return None
        return Item("talk", "dialogue", f"{chosen}:{taken}", text, answer, (answer,))

    return draw_until(make)

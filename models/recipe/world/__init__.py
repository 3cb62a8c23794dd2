"""The small world of the bundled targets: questions whose right answers are generated and checked.

    python -m models.recipe.world --out DIR [--data CORPORA]

| module | what it holds |
|---|---|
| split | what is kept out of training, by wording and by value; the item all others make |
| steps | arithmetic written out in small steps |
| sums, chains | plain sums and drills; calculations of several steps, in signs and in words |
| problems, stories | word problems from problems.txt; stories composed from openings, events and questions |
| follow, composed | follow-ups on the last number or the last function; their wordings put together from parts |
| functions | small Python functions from functions.txt, each run against its checks |
| facts | what OmniDraft is and how to use it, from facts.txt |
| everyday | capitals, colours, opposites and the like, from everyday.txt |
| outside | questions from outside, answered honestly, from outside.txt |
| talk | greetings, thanks, who the model is |
| wordings | how all of these are said, from wordings/ |
| mix | documents from all of these |
"""

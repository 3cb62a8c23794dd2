"""Names and things for word problems. Lists only."""


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


SHE = words(
    "Anna Mia Vera Nora Lena Ida Clara Emma Ruth Alice Maya Zoe Iris Olga Tina Sara Julia Hana Lucy Eva "
    "Rosa Nina Kate Amy Dora Ella Fay Gina Hilda Joan Kira Lara Mona Nadia Paula Rita Sofia Tara Uma Wanda"
)
HE = words(
    "Ben Tom Max Paul Leo Omar Noah Finn Hugo Karl Sam Ivan Jack Liam Milo Oscar Peter Ravi Sven Theo "
    "Adam Bruno Carl David Erik Felix George Henry Ian Jonas Kofi Luis Marco Nils Otto Pablo Rico Simon Tariq Victor"
)

THINGS = words(
    "apples pears plums oranges lemons cherries peaches carrots eggs cookies muffins rolls pencils pens crayons books "
    "stickers stamps marbles beads buttons coins shells stones balloons toys cards photos candles cups plates spoons "
    "bottles boxes baskets flowers roses tulips seeds leaves tickets keys ribbons stars badges ropes lamps hats "
    "scarves socks shirts blocks dolls kites cars trains bricks tiles nails screws bolts maps notes letters magazines "
    "posters"
)
CONTAINER = {
    "boxes": "box", "bags": "bag", "baskets": "basket", "crates": "crate", "jars": "jar", "trays": "tray",
    "shelves": "shelf", "drawers": "drawer", "packs": "pack", "rows": "row",
}  # fmt: skip
GOODS = {
    "book": "books", "pen": "pens", "ticket": "tickets", "cake": "cakes", "shirt": "shirts", "cup": "cups",
    "toy": "toys", "plant": "plants", "lamp": "lamps", "ball": "balls", "bag": "bags", "hat": "hats",
    "poster": "posters", "candle": "candles", "sandwich": "sandwiches", "puzzle": "puzzles", "game": "games",
    "plate": "plates", "scarf": "scarves", "brush": "brushes",
}  # fmt: skip
PLACES = words("garden school library market farm shop kitchen park museum office hall station")
COLOURS = words("red blue green yellow white black orange pink brown purple")
# Who else may be told of, and as what they go on in the next sentence.
RELATIVES = {
    "my aunt": "she", "my uncle": "he", "my sister": "she", "my brother": "he", "my mum": "she", "my dad": "he",
    "grandma": "she", "grandpa": "he", "our teacher": "she", "the baker": "he", "the farmer": "he", "my friend": "he",
    "our neighbour": "she", "the boss": "he", "my cousin": "she", "the girl": "she", "the boy": "he", "the cook": "he",
    "the doctor": "she", "the painter": "he", "the old man": "he", "my niece": "she", "the gardener": "he",
}  # fmt: skip
SIBLINGS = words("sister brother cousin friend")
MONEY = words("dollars euros pounds francs cents coins crowns dimes")
DAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MORE_THINGS = words(
    "sweets donuts buns rolls nuts figs berries melons pies sausages onions beans radishes potatoes waffles cakes "
    "sandwiches pearls rings sticks planks feathers corks pins needles buckets mugs glasses forks knives pans pots "
    "towels sheets pillows mats chairs desks clocks radios phones cables bulbs batteries drums flutes whistles masks "
    "puppets dice chips tokens medals flags tents skates bats rackets nets boats oars anchors engines wheels tubes "
    "screens disks files forms stickers vouchers tapes albums novels comics diaries journals stools benches pictures"
)

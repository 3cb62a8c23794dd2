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

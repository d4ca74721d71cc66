"""Attribute settings drawn from an operator's schema alone, as `gradc ops --json` prints it."""

DTYPES = ["float32", "float64", "float16", "int32", "int64", "uint8", "int8"]
# What a name means to most operators that have it; families.py has what is particular to one.
FRACTIONS = ("beta", "momentum", "gamma", "p")


class Draw:
    """One setting: attributes as text, shapes of the leading inputs, and what values they take."""

    def __init__(self, op, rng):
        self.op, self.rng = op, rng
        self.attrs, self.names = {}, {a["name"] for a in op["attributes"]}
        self.shapes = None   # of the leading inputs; MXNet infers the others
        self.dtype = rng.choices(["float32", "float64", "int32", "float16"], [65, 22, 10, 3])[0]
        self.domains = {}    # input position -> (domain, size) in place of what the schema says
        self.types = {}      # input position -> element type, where it is not that of the data
        self.num_args = None
        self.is_perturbed = False  # an operand has a shape that does not fit
        self.low, self.high = -1.5, 1.5

    def chance(self, p):
        return self.rng.random() < p

    def size(self):
        return self.rng.choice([1, 2, 3, 3, 4, 5])

    def shape(self, low=1, high=5, most=240):
        """Of a rank between `low` and `high`; now and then one without elements, or of rank 0 where `low` is 0."""
        rank = self.rng.randint(low, high)
        while True:
            dims = [self.size() for _ in range(rank)]
            if product(dims) <= most:
                break
        if dims and self.chance(0.03):
            dims[self.rng.randrange(rank)] = 0
        return tuple(dims)

    def axis(self, rank):
        return self.rng.randint(-rank, rank - 1) if rank and self.chance(0.92) else self.rng.choice([rank, -rank - 1, rank + 3])

    def axes(self, rank, most=None):
        """Some axes, as a rule different ones."""
        count = self.rng.randint(0, min(rank, most or rank))
        chosen = self.rng.sample(range(rank), count)
        chosen = [a - rank if self.chance(0.3) else a for a in chosen]
        if chosen and self.chance(0.04):
            chosen.append(chosen[0])
        if self.chance(0.04):
            chosen.append(self.axis(rank) if rank else 1)
        return chosen

    def put(self, name, value, p=1.0):
        """Sets an attribute that the operator has, or with probability 1 - p leaves it to its default."""
        if name in self.names and self.chance(p):
            self.attrs[name] = text(value)

    def fill(self, *names):
        """Draws what is left of the schema, or of `names`."""
        rank = len(self.shapes[0]) if self.shapes else 3
        for attr in self.op["attributes"]:
            name = attr["name"]
            if name in self.attrs or (names and name not in names):
                continue
            if not self.chance(0.985 if attr["required"] else 0.45):
                continue
            value = self.value(attr, rank)
            if value is not None:
                self.attrs[name] = text(value)

    def value(self, attr, rank):
        kind, name, rng = attr["type"], attr["name"], self.rng
        if self.chance(0.01):
            return rng.choice(["bogus", "()", "None", "1e400"])
        if kind == "bool":
            return rng.choice(["True", "False", "1", "0"])
        if kind == "one of":
            return rng.choice(attr["choices"])
        if kind == "dtype":
            return rng.choice(DTYPES)
        if kind == "string":
            return None
        if kind.endswith("or None") and self.chance(0.1):
            return "None"
        if "axis" in name or name in ("dim", "dim1", "dim2", "axis1", "axis2"):
            return self.axes(rank) if kind.startswith("tuple") else self.axis(rank)
        if name == "axes":
            return self.axes(rank)
        if kind.startswith("tuple"):
            return [rng.randint(0, 4) for _ in range(rng.randint(0, rank))]
        if kind.startswith("int"):
            return rng.choice([-1, 0, 1, 1, 2, 2, 3, 4])
        if name.startswith(FRACTIONS) and not self.chance(0.1):
            return round(rng.uniform(0.05, 0.95), 3)
        if name in ("eps", "epsilon"):
            return rng.choice([1e-5, 1e-3, 0.1, 2e-3])
        return rng.choice([0, 1, 2, -1, 0.5, round(rng.uniform(-2, 2), 4), round(rng.uniform(0, 2), 4)])

    def respell(self):
        """Now and then writes a value as Python would not."""
        for name, plain in self.attrs.items():
            if self.chance(0.03):
                self.attrs[name] = self.rng.choice(spellings(plain))


def spellings(plain):
    if plain.startswith("("):
        inner = plain.strip("(),")
        return [f"[{inner}]", f"({inner})", f"( {inner} )", inner, f"({inner}", f"{{{inner}}}", f"({inner}, ,)", f"({inner.replace(',', 'L,')})"]
    if plain in ("True", "False"):
        return [plain.lower(), plain.upper(), str(int(plain == "True")), plain[0]]
    try:
        number = float(plain)
    except ValueError:
        return [plain.upper(), f" {plain}", f'"{plain}"']
    return [f" {plain} ", f"+{plain}", f"{plain}L", f"{number}", f"{number:e}", f"{plain}f", f"0{plain}"]


def product(dims):
    total = 1
    for d in dims:
        total *= d
    return total


def text(value):
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(str, value)) + ("," if len(value) == 1 else "") + ")"
    return str(value)

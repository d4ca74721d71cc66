"""The command line that both scripts of draws have."""
import argparse


def parse(doc, verbose):
    """`verbose` says what --verbose prints. `ops` is a set of names, empty for all."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gradc")
    parser.add_argument("--ops", default="")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, default=-1, help="the number of one draw")
    parser.add_argument("--verbose", action="store_true", help=verbose)
    options = parser.parse_args()
    options.ops = set(filter(None, options.ops.split(",")))
    return options

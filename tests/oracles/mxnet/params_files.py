#!/usr/bin/env python3
"""python3 tests/oracles/mxnet/params_files.py: writes testdata/params/*.params with MXNet 1.9.1 (pip install mxnet==1.9.1 'numpy<1.24').

MXNet writes the newest form alone, so the older ones are put together here, and MXNet reads them: the script fails unless
each file means the same arrays to it. tests/runtime/params_test.cc has the values."""
import pathlib
import struct

import numpy as np

np.bool = bool  # which this MXNet still uses
import mxnet as mx

OUT = pathlib.Path(__file__).absolute().parents[3] / "testdata/params"
WEIGHT = np.array([[0.5, -1, 2], [3, 1e-40, -0.0]], dtype="float32")
MEAN = np.array([1, np.inf, -2.25], dtype="float32")


def save(name, arrays):
    mx.nd.save(str(OUT / name), arrays)
    check(name, arrays)


def check(name, arrays):
    read = mx.nd.load(str(OUT / name))
    assert list(read) == list(arrays), name
    for key, array in arrays.items():
        left, right = read[key].asnumpy(), array.asnumpy()
        assert left.dtype == right.dtype and left.tobytes() == right.tobytes(), (name, key)


def old(name, shape_of):
    """A file of arrays with another beginning than today's."""
    arrays = {"arg:weight": WEIGHT, "aux:mean": MEAN}
    out = struct.pack("<QQQ", 0x112, 0, len(arrays))
    for array in arrays.values():
        out += shape_of(array.shape) + struct.pack("<iii", 1, 0, 0) + array.tobytes()
    out += struct.pack("<Q", len(arrays))
    for key in arrays:
        out += struct.pack("<Q", len(key)) + key.encode()
    (OUT / name).write_bytes(out)
    check(name, {key: mx.nd.array(array) for key, array in arrays.items()})


def main():
    OUT.mkdir(exist_ok=True)
    dense = {"arg:weight": mx.nd.array(WEIGHT), "aux:mean": mx.nd.array(MEAN)}
    for number, dtype in enumerate(("float64", "float16", "uint8", "int32", "int8", "int64")):
        dense["arg:" + dtype] = mx.nd.array(np.array([[number], [100]]), dtype=dtype)
    dense["gluon"] = mx.nd.array([7])  # save_parameters writes no prefix
    save("dense.params", dense)
    rows = mx.nd.sparse.row_sparse_array((np.array([[1, 2], [3, 4]], dtype="float32"), [1, 3]), shape=(5, 2))
    csr = mx.nd.sparse.csr_matrix((np.array([1, 2, 3], dtype="float32"), [0, 2, 1], [0, 2, 2, 3]), shape=(3, 4))
    save("sparse.params", {"arg:rows": rows, "arg:csr": csr})
    with mx.util.np_shape(True):
        save("numpy.params", {"arg:scalar": mx.nd.array(np.array(2.5), dtype="float32"),
                              "arg:empty": mx.nd.array(np.zeros((0, 3)), dtype="float32"),
                              "arg:flag": mx.nd.array(np.array([1, 0, 1]), dtype="bool")})
    old("v1.params", lambda shape: struct.pack("<Ii", 0xF993FAC8, len(shape)) + struct.pack(f"<{len(shape)}q", *shape))
    old("v0.params", lambda shape: struct.pack(f"<{len(shape) + 1}I", len(shape), *shape))


if __name__ == "__main__":
    main()

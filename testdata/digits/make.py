#!/usr/bin/env python3
"""Writes digits.npz from scikit-learn's copy of the UCI handwritten digits.

    python3 -m venv venv && venv/bin/pip install scikit-learn==1.9.1
    venv/bin/python testdata/digits/make.py testdata/digits/digits.npz

Every fifth image, the fifth first, is for testing. The archive does not depend on the day: members are
deflated at level 9 and dated 1980. README.md beside this file has the provenance.
"""
import io
import sys
import zipfile

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
images = digits.images.astype(np.uint8).reshape(-1, 1, 8, 8)
labels = digits.target.astype(np.uint8)
held_out = np.arange(len(labels)) % 5 == 4
arrays = {
    "train_images": images[~held_out],
    "train_labels": labels[~held_out],
    "test_images": images[held_out],
    "test_labels": labels[held_out],
}
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    for name, array in arrays.items():
        data = io.BytesIO()
        np.lib.format.write_array(data, np.ascontiguousarray(array), version=(1, 0))
        member = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
        member.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(member, data.getvalue(), compresslevel=9)
        print(name, array.shape, array.dtype)

"""Fashion-MNIST: 70,000 pictures of clothes of 28x28, in files named and laid out as MNIST's."""

from __future__ import annotations

from cyclade.experiments.datasets import DatasetInfo
from cyclade.experiments.datasets.mnist import net, read
from cyclade.experiments.official import Official, OfficialFile

HOSTS = (
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
FILES = (  # as published, which is compressed: so they are read and checked compressed
    ("train-images-idx3-ubyte.gz", 26_421_880, "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    ("train-labels-idx1-ubyte.gz", 29_515, "md5:25c81989df183df01b3e8a0aad5dffbe"),
    ("t10k-images-idx3-ubyte.gz", 4_422_102, "md5:bef4ecab320f06d8554ea6380940ec79"),
    ("t10k-labels-idx1-ubyte.gz", 5_148, "md5:bb300cfdad3c16e7a12a480ee83cd310"),
)

DATASET = DatasetInfo(
    name="fashion-mnist",
    label="Fashion-MNIST",
    images=(60_000, 10_000),
    shape=(1, 28, 28),
    read=read,
    net=net,
    batch=512,
    lr=0.1,
    lr_recursive=0.01,
    vr_batch=64,
    official=Official(
        folder="FashionMNIST/raw",
        also=("fashion-mnist", "FashionMNIST"),  # not "": MNIST's files have the same names
        files=tuple(OfficialFile(*file) for file in FILES),
        hosts=HOSTS,
        downloads={name: md5 for name, _, md5 in FILES},
    ),
)

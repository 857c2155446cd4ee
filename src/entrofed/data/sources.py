"""The files that datasets are made of: size in bytes, SHA-256, and where they can be downloaded."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class File:
    """One file of a dataset, relative to the data directory."""

    path: str
    size: int
    sha256: str
    urls: tuple[str, ...] = ()
    member: str = ""
    """Its name inside the dataset's archive."""
    md5: str = ""
    """Only where the publisher gives no SHA-256."""


_FILES = """
mnist/train-images-idx3-ubyte.gz 9912422 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609
mnist/train-labels-idx1-ubyte.gz 28881 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c
mnist/t10k-images-idx3-ubyte.gz 1648877 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6
mnist/t10k-labels-idx1-ubyte.gz 4542 f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6
fashion-mnist/train-images-idx3-ubyte.gz 26421880 3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84
fashion-mnist/train-labels-idx1-ubyte.gz 29515 a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845
fashion-mnist/t10k-images-idx3-ubyte.gz 4422102 346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073
fashion-mnist/t10k-labels-idx1-ubyte.gz 5148 67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5
emnist-digits/emnist-digits-train-images-idx3-ubyte.gz 59515779 f7c95004d14d81af89522e67d8f0c781dfb3bd544181c81bfe1eb6b41c35b726
emnist-digits/emnist-digits-train-labels-idx1-ubyte.gz 113859 6638a6ff5fe2eefd9cca2471995b46c82986b8e4b2a70d2f5ce8e05d7edb319e
emnist-digits/emnist-digits-test-images-idx3-ubyte.gz 9908519 20ebe43509264f7639d37c835a3f0b009e90b29e00a099a03101abe1644a3f63
emnist-digits/emnist-digits-test-labels-idx1-ubyte.gz 19960 bad1834c45d5988e270b99d43b13edc3fd898f658ffbc2caf2846ef27f7b05b0
cifar-10-batches-bin/data_batch_1.bin 30730000 cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5
cifar-10-batches-bin/data_batch_2.bin 30730000 a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed
cifar-10-batches-bin/data_batch_3.bin 30730000 bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67
cifar-10-batches-bin/data_batch_4.bin 30730000 014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48
cifar-10-batches-bin/data_batch_5.bin 30730000 755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add
cifar-10-batches-bin/test_batch.bin 30730000 8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b
cifar-100-binary/train.bin 153700000 f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29
cifar-100-binary/test.bin 30740000 d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a
iris.csv 2734 f13ffa8fdd56fd8e6c8d16d4081a3fbd3114bcd0aae4256c43205169cd9d1449
seeds_dataset.txt 9300 1f3f83c0d8485ae9148061389d19628607e3f5660e3d6f40ec9102fb398bb12f
processed.cleveland.data 18461 a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8
heart-disease/heart.csv 38114 ddb2996b2f4db2e00aad13f4518200179ff69f79093838e3c21ffa672ebec0f1
pumpkin-seeds/Pumpkin_Seeds_Dataset.csv 261127 39b811c318133235421140a46c2b3c0cf1547ed8614ffd622e27c45a6bc46ea6
processed.hungarian.data 10263 d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796
processed.switzerland.data 4109 834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314
processed.va.data 6737 e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f
adult/adult.data 3974305 5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d
adult/adult.test 2003153 a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05
mnist-writers/qmnist-train-labels-idx2-int.gz 463024 2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f
mnist-writers/qmnist-test-labels-idx2-int.gz 526800 9fbcbe594c3766fdf4f0b15c5165dc0d1e57ac604e01422608bb72c906030d06
activity/hapt_raw_30_users.npz 13046324 c7a84a625c38dc5676375a0213d1c643644c13746f5c5a18017f23097bef92f5
shakespeare/moby-shakespeare.zip 2134025 339e11474be9330151a33acbeeb8299504df2560eabe81b7d04c880da2e2877a
"""  # noqa: E501

_MIRRORS = {
    "mnist": (
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
    ),
    "fashion-mnist": (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
    ),
    "emnist-digits": ("https://github.com/aurelienduarte/emnist/raw/master/gzip",),
    "mnist-writers": ("https://raw.githubusercontent.com/facebookresearch/qmnist/master",),
    "adult": ("https://archive.ics.uci.edu/ml/machine-learning-databases/adult",),
}

_MEMBER_FOLDERS = {"emnist-digits": "gzip"}
"""Where the folder inside the archive has another name."""

_CINIC = File(
    path="cinic-10/CINIC-10.tar.gz",
    size=687544992,
    sha256="",
    md5="6ee4d0c996905fe93221de577967a372",
    urls=(
        "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz",
        "https://datashare.ed.ac.uk/server/api/core/bitstreams/e8e186cc-2688-48f1-aa5a-3fda1a43f8b6/content",
    ),
)

ARCHIVES = {
    "emnist-digits": File(
        path="emnist-gzip.zip",
        size=561753746,
        sha256="fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
        urls=(
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
            "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/gzip.zip",
        ),
    ),
    "cifar-10": File(
        path="cifar-10-binary.tar.gz",
        size=170052171,
        sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    ),
    "cifar-100": File(
        path="cifar-100-binary.tar.gz",
        size=168513733,
        sha256="58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        urls=("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
    ),
}


def files(*prefixes: str) -> tuple[File, ...]:
    """The files whose path starts like one of these.

    >>> files("mnist/t10k-labels")[0].urls[0]
    'https://storage.googleapis.com/cvdf-datasets/mnist/t10k-labels-idx1-ubyte.gz'
    """
    return tuple(file for file in _ALL if file.path.startswith(prefixes))


def place(root: Path, file: File) -> Path:
    """Where a file is in a data directory: at its path, or gzipped beside it."""
    path = root / file.path
    packed = path.with_name(path.name + ".gz")
    return packed if packed.is_file() and not path.is_file() else path


def _file(line: str) -> File:
    path, size, sha256 = line.split()
    folder, _, name = path.rpartition("/")
    urls = tuple(f"{mirror}/{name}" for mirror in _MIRRORS.get(folder, ()))
    return File(path, int(size), sha256, urls, member=f"{_MEMBER_FOLDERS.get(folder, folder)}/{name}")


_ALL = (*map(_file, _FILES.strip().splitlines()), _CINIC)

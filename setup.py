from setuptools import find_packages, setup

setup(
    name="tfsoftmax",
    version="0.1.0",
    description="Softmax output layers for large vocabularies, in Keras, and the language models that prove them",
    long_description=open("README.md", encoding="utf-8").read(),
    long_description_content_type="text/markdown",
    python_requires=">=3.11",
    packages=find_packages(include=["tfsoftmax", "tfsoftmax.*"]),
    py_modules=["tfsoftmax_command"],
    entry_points={"console_scripts": ["tfsoftmax = tfsoftmax_command:main"]},
    install_requires=[
        "tensorflow>=2.21",
        "tensorflow-datasets>=4.9.9",
        "numpy>=2.0",
        "absl-py>=2.1",
        "tensorboard>=2.19",
        "keras>=3.8",
        "tqdm>=4.60",
    ],
    extras_require={
        "test": ["pytest>=8", "pytest-xdist>=3.6"],
        "plot": ["matplotlib>=3.8"],
        "profile": ["xprof>=2.20"],
        "tfds": ["importlib_resources", "dill"],
        "wer": ["jiwer>=4"],
        "arpa": ["kenlm>=0.2"],
    },
)

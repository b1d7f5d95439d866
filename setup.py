from setuptools import setup

setup()  # everything stands in pyproject.toml

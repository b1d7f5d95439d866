"""A process that serves exported models, in which importing tfsoftmax or Keras is an error."""

import json
import subprocess
import sys

SERVER = """
import functools, json, sys
sys.modules["tfsoftmax"] = sys.modules["keras"] = None
import numpy as np
import tensorflow as tf
load, answers = functools.cache(tf.saved_model.load), []
for folder, signature, tensors in json.load(sys.stdin):
    given = {name: tf.constant(*tensor) for name, tensor in tensors.items()}
    found = load(folder).signatures[signature](**given)
    answers.append({
        name: (np.char.decode(t.numpy().astype(bytes), "utf-8") if t.dtype == tf.string
               else t.numpy()).tolist()
        for name, t in found.items()
    })
for name in ("tfsoftmax", "keras"):
    assert not [m for m in sys.modules if m.startswith(name + ".")]
print(json.dumps(answers))
"""


def serve(*requests):
    """What answers each (folder, signature, {name: (value, dtype)}), as lists by name."""
    done = subprocess.run(
        [sys.executable, "-c", SERVER], input=json.dumps(requests), capture_output=True, text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "custom gradients" not in done.stderr  # of which loading would warn
    return json.loads(done.stdout.splitlines()[-1])


def retrieved(*questions):
    """The (ids, scores) that a process without tfsoftmax finds for each (folder, request)."""
    answers = serve(*((str(folder), "retrieve", request) for folder, request in questions))
    return [(found["ids"], found["scores"]) for found in answers]


def padded(sentences):
    """Words as a signature takes them: as many of each sentence, the last of them empty."""
    longest = max(map(len, sentences))
    return [words + [""] * (longest - len(words)) for words in sentences], "string"

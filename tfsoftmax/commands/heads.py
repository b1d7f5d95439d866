"""Lists the output layers that --head names.

    tfsoftmax heads
    tfsoftmax train --data=data/text8 --run=runs/tree --head=tree

Each line has a name, what the layer computes, and the options that it needs in --head_options.
"""

from tfsoftmax.lm.head_names import HEAD_NAMES


def main():
    for name, (_, text) in HEAD_NAMES.items():
        print(f"{name:<16} {text}")

# The README's commands in a container:
#
#     docker build --tag simple-dqn --build-arg PIP_EXTRA_INDEX_URL=… .    (README.md, "Start", links to the address)
#     docker run --rm --interactive --tty --volume "$PWD/results:/simple-dqn/results" \
#         --volume "$PWD/snapshots:/simple-dqn/snapshots" simple-dqn ./train.sh pong
#
# Nobody has built it yet: a test only checks that its files and commands exist.
FROM python:3.12-slim

# PyTorch's CPU build is chosen by its address; without it pip takes the GPU build.
ARG PIP_EXTRA_INDEX_URL=
WORKDIR /simple-dqn
# The packages first: a change of the code does not install them again.
COPY requirements.txt ./
COPY scripts/setup.sh scripts/
RUN scripts/setup.sh requirements.txt
COPY . .
CMD ["./train.sh", "pong"]

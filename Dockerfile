# The README's commands in a container. PIP_EXTRA_INDEX_URL is the address in the README's section "Start":
#
#     docker build --tag simple-dqn --build-arg PIP_EXTRA_INDEX_URL=… .
#     docker run --rm --interactive --tty --volume "$PWD/results:/simple-dqn/results" \
#         --volume "$PWD/snapshots:/simple-dqn/snapshots" simple-dqn ./train.sh pong
#
# This image has not been built yet: a test only checks that the files and commands below exist.
FROM python:3.12-slim

# The address of PyTorch's CPU build; without it pip takes the GPU build.
ARG PIP_EXTRA_INDEX_URL=
WORKDIR /simple-dqn
# The packages come first, so that a change of the code does not install them again.
COPY requirements.txt ./
COPY scripts/setup.sh scripts/
RUN scripts/setup.sh requirements.txt
COPY . .
CMD ["./train.sh", "pong"]

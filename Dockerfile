# Checked by hadolint; nobody has built it yet.
# The processor:  docker build -t omnidraft .
# An NVIDIA card: docker build -t omnidraft --build-arg BASE=nvidia/cuda:12.8.1-devel-ubuntu24.04 \
#                   --build-arg CMAKE_ARGS=-DGGML_CUDA=ON --build-arg TORCH=https://download.pytorch.org/whl/cu128 .
# An account:     docker run -it --rm -v omnidraft:/data omnidraft --add-user NAME
# The app:        docker run -p 127.0.0.1:7860:7860 -v omnidraft:/data omnidraft     (a card: with --gpus all)
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
ARG CMAKE_ARGS=
ARG TORCH=https://download.pytorch.org/whl/cpu
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends build-essential cmake git libgomp1 python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/omnidraft
ENV PATH=/opt/omnidraft/bin:$PATH
COPY . /src
# llama.cpp is built for processors like this one; the settings beside it are those of requirements.txt.
RUN pip install --no-cache-dir --extra-index-url "${TORCH}" torch==2.13.0 \
 && CMAKE_ARGS="-DLLAVA_BUILD=ON -DGGML_RPC=ON ${CMAKE_ARGS}" pip install --no-cache-dir /src \
 && rm -rf /src \
 && useradd --create-home --uid 1000 --non-unique omnidraft \
 && install -d -o omnidraft /data
USER 1000
VOLUME /data
EXPOSE 7860
# A container listens to others, so whoever comes signs in.
ENTRYPOINT ["omnidraft", "--host", "0.0.0.0", "--data-dir", "/data", "--auth-file", "/data/accounts.json"]

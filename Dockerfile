# The pinned container. `make image-cpu` builds it (docker/image passes the labels); the suite builds it by itself where it
# finds an engine. BASE: any Debian 12 with apt; name it by digest (BASE=debian@sha256:...) to pin the system's packages too.
ARG BASE=debian:bookworm-slim
FROM ${BASE} AS cpu

# tini: reaps what killed workers leave and passes signals on, whichever engine runs the image.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv tini \
 && rm -rf /var/lib/apt/lists/*

# Locks before code: a change of code rebuilds only the last, small layers. Set-up is the one that users run natively.
WORKDIR /opt/speedproof
COPY docker/setup docker/system-packages docker/
RUN docker/setup --system && rm -rf /var/lib/apt/lists/*
COPY docker/requirements-*.lock docker/
RUN PIP_NO_CACHE_DIR=1 docker/setup && rm -f .venv.lock .venv.log

COPY pyproject.toml LICENSE ./
COPY suite suite
COPY reports reports
COPY docker/entrypoint docker/
RUN .venv/bin/python -m compileall -q suite reports \
 && useradd --uid 1000 --create-home speedproof \
 && install --directory --owner speedproof --mode 1777 /results

# Any --user may run it: such a user has no home and no name of its own, and Inductor and Matplotlib ask for both.
ENV HOME=/tmp USER=speedproof LOGNAME=speedproof PYTHONUNBUFFERED=1

ARG VERSION=0.1.0
ARG REVISION=
ARG DIRTY=
ARG SOURCE=
# The source's revision goes in here because the image holds no repository.
ENV SPEEDPROOF_REVISION=${REVISION} SPEEDPROOF_DIRTY=${DIRTY}
LABEL org.opencontainers.image.title="speedproof" \
      org.opencontainers.image.description="Reproducible benchmarks of PyTorch eager against torch.compile on the CPU" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      speedproof.source="${SOURCE}"

USER speedproof
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/speedproof/docker/entrypoint"]

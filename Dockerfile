# The pinned container, for x86_64: targets cpu and cuda. `make image-cpu` and `make image-cuda` build it and say what they
# lack (docker/image); docker/README.md tells how to pin, to build without a registry, and to compare two builds.
# BASE: any Debian 12 with apt; name it by digest (BASE=docker.io/library/debian@sha256:...) to pin it.
ARG BASE=docker.io/library/debian:bookworm-slim
FROM ${BASE} AS system
# SNAPSHOT=20260101T000000Z takes Debian's packages as the archive was then (SNAPSHOT_URL: another keeper of old archives than
# snapshot.debian.org); without it, as it is.
ARG SNAPSHOT=
ARG SNAPSHOT_URL
WORKDIR /opt/speedproof
COPY docker/layer docker/setup docker/system-packages docker/
RUN IN_IMAGE=yes docker/layer system
# Any --user may run it: such a user has no home and no name of its own, and Inductor and Matplotlib ask for both.
ENV HOME=/tmp USER=speedproof LOGNAME=speedproof PYTHONUNBUFFERED=1 \
    HF_HUB_CACHE=/opt/speedproof/hub SPEEDPROOF_SBOM=/opt/speedproof/sbom.cdx.json
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/speedproof/docker/entrypoint"]
LABEL org.opencontainers.image.title="speedproof" \
      org.opencontainers.image.licenses="Apache-2.0"

# Torch and all other packages before the code: a change of code rebuilds only the last, small layers.
# Where packages come from, when not from the default index: options of pip, which the image does not keep.
FROM system AS cpu-packages
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ARG PIP_CERT
ARG TORCH_INDEX_URL
COPY docker/requirements-cpu.lock docker/
RUN IN_IMAGE=yes docker/layer python cpu

# The CUDA run-time comes with torch's wheels; the driver is the host's.
FROM system AS cuda-packages
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ARG PIP_CERT
COPY docker/requirements-cuda.lock docker/
RUN IN_IMAGE=yes docker/layer python cuda

# WEIGHTS=bake puts MobileBERT's published weights into the image; without it there are none, and the run says so.
FROM system AS weights
ARG WEIGHTS=
ARG HF_ENDPOINT
COPY docker/weights docker/weights.lock docker/
RUN mkdir hub && if [ "$WEIGHTS" = bake ]; then python3 docker/weights bake hub && chmod -R u=rwX,go=rX hub; fi

FROM system AS application
COPY pyproject.toml LICENSE ./
COPY suite suite
COPY reports reports
COPY docker/entrypoint docker/
COPY docker/sbom docker/sbom
RUN IN_IMAGE=yes docker/layer code

FROM cuda-packages AS cuda
COPY --from=application /opt/speedproof /opt/speedproof
COPY --from=weights /opt/speedproof/hub /opt/speedproof/hub
# What differs from commit to commit comes last. The revision goes in here because the image holds no repository.
ARG VERSION=
ARG REVISION=
ARG DIRTY=
ARG SOURCE=
ARG SOURCE_URL=
ARG CREATED=
ARG SOURCE_DATE_EPOCH
RUN IN_IMAGE=yes docker/layer sbom cuda
ENV SPEEDPROOF_REVISION=${REVISION} SPEEDPROOF_DIRTY=${DIRTY} \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
LABEL org.opencontainers.image.description="Reproducible benchmarks of PyTorch eager against torch.compile on NVIDIA GPUs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE_URL}" \
      org.opencontainers.image.created="${CREATED}" \
      speedproof.source="${SOURCE}"
USER speedproof

# The last stage: what a build without --target makes.
FROM cpu-packages AS cpu
COPY --from=application /opt/speedproof /opt/speedproof
COPY --from=weights /opt/speedproof/hub /opt/speedproof/hub
ARG VERSION=
ARG REVISION=
ARG DIRTY=
ARG SOURCE=
ARG SOURCE_URL=
ARG CREATED=
ARG SOURCE_DATE_EPOCH
RUN IN_IMAGE=yes docker/layer sbom cpu
ENV SPEEDPROOF_REVISION=${REVISION} SPEEDPROOF_DIRTY=${DIRTY}
LABEL org.opencontainers.image.description="Reproducible benchmarks of PyTorch eager against torch.compile on the CPU" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE_URL}" \
      org.opencontainers.image.created="${CREATED}" \
      speedproof.source="${SOURCE}"
USER speedproof

# An image whose entry point is `nel`, from the wheel in dist/: see docs/continuous-integration.md.
ARG BASE=python:3.12-slim
FROM ${BASE}
ARG EXTRAS=""
ARG PIP_ARGS=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_BREAK_SYSTEM_PACKAGES=1
COPY dist/*.whl /tmp/dist/
RUN for wheel in /tmp/dist/*.whl; do python3 -m pip install ${PIP_ARGS} "${wheel}${EXTRAS}"; done && rm -rf /tmp/dist
# Not root; --user takes the place of this, so that files of the run belong to whoever mounts the folder.
ENV HOME=/tmp
USER 1000:1000
WORKDIR /data
ENTRYPOINT ["nel"]

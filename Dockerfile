# newnormal as a container: `docker build -t newnormal .`, then
#
#   docker run --rm -v plant:/data -i newnormal watch plant.nn - --state plant.state < live.csv
#   docker run --rm -p 127.0.0.1:8765:8765 newnormal serve --demo --host 0.0.0.0 --insecure
#
# packaging/compose.yaml runs the service with a token and a volume.
# All install steps are packaging/install.sh, which .ci/run runs in an empty folder.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /source
COPY . .
RUN CONSTRAINTS=constraints.txt packaging/install.sh . /opt/newnormal parquet,excel,zstd,plot,serve,connectors

FROM python:${PYTHON}-slim
COPY --from=build /opt/newnormal /opt/newnormal
# Compiled code is kept beside the data, so that the second start is fast, whoever runs it.
ENV PATH=/opt/newnormal/bin:$PATH \
    NUMBA_CACHE_DIR=/data/.compiled \
    PYTHONUNBUFFERED=1
RUN useradd --system --uid 10001 --home-dir /data newnormal && mkdir /data && chown newnormal /data
USER newnormal
WORKDIR /data
VOLUME /data
EXPOSE 8765
# `serve` stops in order: what it has taken in is applied and saved.
STOPSIGNAL SIGTERM
ENTRYPOINT ["newnormal"]
CMD ["--help"]

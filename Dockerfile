# Images:
#   docker build --target layer -t rrdma:layer .   the release in dist/ alone, for COPY --from=rrdma:layer / /
#   docker build --target image -t rrdma .         the same with Debian and the usual RDMA test programs
#   docker build -t rrdma .                        the programs with RRDMA built from this tree
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends make
COPY . /src
RUN make -C /src deb

FROM debian:12-slim AS unpacked
ARG TARGETARCH=amd64
COPY dist/ /dist/
RUN cd /dist && sha256sum --ignore-missing -c SHA256SUMS \
 && mkdir -p /layer/opt/rrdma /layer/usr/local/bin \
 && tar -x -z -C /layer/opt/rrdma --strip-components=1 -f rrdma-*-linux-"$TARGETARCH".tar.gz \
 && ln -s /opt/rrdma/bin/rrdma /opt/rrdma/bin/rrdmad /layer/usr/local/bin/

FROM scratch AS layer
COPY --from=unpacked /layer/ /

FROM debian:12-slim AS image
RUN apt-get update \
 && apt-get install -y --no-install-recommends ibverbs-utils rdmacm-utils perftest iproute2 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home rrdma
COPY --from=layer / /
USER rrdma
CMD ["rrdma", "doctor"]

FROM debian:12-slim
COPY --from=build /src/build-deb/rrdma_*.deb /tmp/
RUN apt-get update \
 && apt-get install -y --no-install-recommends /tmp/rrdma_*.deb ibverbs-utils rdmacm-utils perftest iproute2 \
 && rm -rf /var/lib/apt/lists/* /tmp/rrdma_*.deb \
 && useradd --create-home rrdma
USER rrdma
CMD ["rrdma", "doctor"]

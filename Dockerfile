# A small image with RRDMA and the usual RDMA test programs: docker build -t rrdma .
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends make
COPY . /src
RUN make -C /src deb

FROM debian:12-slim
COPY --from=build /src/build-deb/rrdma_*.deb /tmp/
RUN apt-get update \
 && apt-get install -y --no-install-recommends /tmp/rrdma_*.deb ibverbs-utils rdmacm-utils perftest iproute2 \
 && rm -rf /var/lib/apt/lists/* /tmp/rrdma_*.deb \
 && useradd --create-home rrdma
USER rrdma
CMD ["rrdma", "doctor"]

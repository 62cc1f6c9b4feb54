# syntax=docker/dockerfile:1
# One static binary in an empty image: no shell and no package.

# Debian bookworm, on which the tests run. It was never released for riscv64, and so the image of Rust for bookworm has
# no variant for it either; trixie is the first release that has. What is tested on amd64 is what ships, as all others
# stay with bookworm. BuildKit sets TARGETARCH.
ARG TARGETARCH
FROM rust:1.95-bookworm AS base-amd64
FROM rust:1.95-bookworm AS base-arm64
FROM rust:1.95-bookworm AS base-arm
FROM rust:1.95-bookworm AS base-ppc64le
FROM rust:1.95-bookworm AS base-s390x
FROM rust:1.95-trixie AS base-riscv64

# hadolint ignore=DL3006
FROM base-${TARGETARCH} AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# The SBOM of the image has a second part for this stage: the binary contains the C library of this Debian.
ARG BUILDKIT_SBOM_SCAN_STAGE=true
# Writes the list of the dependencies into the binary. It runs once: building it without optimization is faster.
RUN cargo install --locked --debug cargo-auditable@0.7.7
WORKDIR /src
COPY .ci/static-flags ./.ci/
COPY Cargo.toml Cargo.lock rust-toolchain.toml ./
COPY examples/demo/Cargo.toml ./examples/demo/
COPY crates ./crates
COPY presets ./presets
COPY src ./src
# The commit, for `podnudge --version`.
ARG PODNUDGE_COMMIT
# The sourced file assigns the variables.
# hadolint ignore=SC2154
RUN . .ci/static-flags \
 && CARGO_ENCODED_RUSTFLAGS="$static" cargo auditable build --locked --release --target "$target" --bin podnudge \
 && install -D "target/$target/release/podnudge" /image/podnudge \
 && mkdir -p /image/usr/local/bin && ln -s ../../../podnudge /image/usr/local/bin/podnudge \
 && cp -a /image /reloader \
 && mkdir /reloader/bin && ln -s ../podnudge /reloader/bin/prometheus-config-reloader

# A drop-in for prometheus-config-reloader: `docker build --target prometheus-config-reloader`. By this name the
# program takes its options, and this path is the command in the pods of the Prometheus operator.
FROM scratch AS prometheus-config-reloader
COPY --from=build /reloader /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER 65532:65532
ENTRYPOINT ["/bin/prometheus-config-reloader"]

FROM scratch AS podnudge
COPY --from=build /image /
# For `kubectl exec POD -c podnudge -- podnudge status`, and for the checkers that an image built on this one adds.
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# The usual uid for images that are not root's. A number, since there is no /etc/passwd.
USER 65532:65532
ENTRYPOINT ["/podnudge"]

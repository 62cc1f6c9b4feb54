# syntax=docker/dockerfile:1
# One static binary in an empty image: no shell, no package, nothing for a scanner to find.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock rust-toolchain.toml ./
COPY presets ./presets
COPY src ./src
# With a target given, only the program itself is linked statically, not the build scripts.
RUN target="$(uname -m)-unknown-linux-gnu" \
 && RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs,--no-eh-frame-hdr,--icf=all,-T,src/release.ld" cargo build --locked --release --target "$target" --bin podnudge \
 && install -D "target/$target/release/podnudge" /image/podnudge

FROM scratch
COPY --from=build /image/podnudge /podnudge
# The usual uid for images that are not root's. A number, since there is no /etc/passwd.
USER 65532:65532
ENTRYPOINT ["/podnudge"]

# nix-build packaging/nix: builds this tree.
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "rrdma";
  version = "0.2.0";
  src = pkgs.lib.cleanSource ../..;

  nativeBuildInputs = with pkgs; [ cmake ninja pkg-config protobuf python3 ];
  buildInputs = with pkgs; [
    asio
    cli11
    fmt
    isa-l
    libevent
    libnl
    liburing
    nlohmann_json
    openssl
    prometheus-cpp
    protobuf
    rdma-core
    tomlplusplus
    zlib
  ];

  cmakeFlags = [
    "-DRRDMA_TESTS=OFF"
    "-DRRDMA_BENCH=OFF"
    "-DRRDMA_WERROR=OFF"
    "-DRRDMA_SYSTEM_UNITS=lib/systemd/system"
  ];

  meta = {
    description = "RDMA NIC made of software, for ordinary users";
    homepage = "https://github.com/OWNER/rrdma";
    license = pkgs.lib.licenses.mit;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "rrdma";
  };
}

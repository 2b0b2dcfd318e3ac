# The same as echo.proto for Cap'n Proto.
@0xb3d1e2c4a5968778;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("rpc_bench");

interface Echo {
  say @0 (data :Data) -> (data :Data);
  sink @1 (data :Data) -> (count :UInt64);
}

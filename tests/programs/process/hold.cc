// hold: opens the device, creates queue pairs (--qps=N), prints their QPNs and how long opening took, and
// keeps them until its standard input ends or it is killed.
#include <unistd.h>

#include <string>
#include <vector>

#include "completions.h"
#include "verdict.h"

int main(int argc, char** argv) {
  using namespace proof;
  Arguments arguments(argc, argv);
  const long count = arguments.number("qps", 1);
  const double begin = monotonic_seconds();
  Device device(arguments);
  const double opened = monotonic_seconds();
  arguments.check();
  {
    Completions completions(device, 16, false);
    std::vector<ibv_qp*> qps;
    for (long i = 0; i < count; ++i) {
      qps.push_back(device.create_qp(completions.cq(), {.sends = 4, .receives = 4}));
      // Connected to itself, so that it receives packets.
      const QpAddress own = device.prepare(qps.back(), 1);
      device.connect(qps.back(), own, own);
    }
    say("qpn " + std::to_string(qps.front()->qp_num) + " opened in " +
        std::to_string((opened - begin) * 1000) + " ms");
    std::string all = "qpns";
    for (const ibv_qp* qp : qps) all += " " + std::to_string(qp->qp_num);
    say(all);
    char nothing;
    while (::read(STDIN_FILENO, &nothing, 1) > 0) {
    }
    for (ibv_qp* qp : qps) ibv_destroy_qp(qp);
  }
  return 0;
}

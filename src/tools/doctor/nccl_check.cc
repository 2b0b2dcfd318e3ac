// `rrdma doctor --nccl`: the settings that NCCL needs here. NCCL reads them from the environment, so the
// checks look at the environment of the doctor.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "base/format.h"
#include "tools/doctor/finding.h"

namespace rrdma::tools {
namespace {

std::string_view nccl_setting(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

Finding check_cuda() {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    return {Health::kBad, "libcuda", "libcuda.so.1 is not found, and NCCL does not start without it.",
            "install the NVIDIA driver; in a container, pass the GPU in (docker run --gpus all)"};
  }
  const bool exports = dlsym(library, "cuMemGetHandleForAddressRange") != nullptr;
  dlclose(library);
  if (exports) return {Health::kOk, "libcuda", "libcuda.so.1 is there and can export memory as dma-buf.", ""};
  return {Health::kWarn, "libcuda", "the driver is older than CUDA 11.7 and cannot export memory as dma-buf.",
          "update the driver; until then NCCL moves data through host memory"};
}

Finding check_transport() {
  if (nccl_setting("NCCL_IB_DISABLE") == "1")
    return {Health::kBad, "NCCL_IB_DISABLE", "NCCL ignores all RDMA devices.", "unset NCCL_IB_DISABLE"};
  const std::string_view net = nccl_setting("NCCL_NET");
  if (net == "IB") return {Health::kOk, "NCCL_NET", "NCCL uses RDMA devices, or fails.", ""};
  if (!net.empty()) {
    return {Health::kBad, "NCCL_NET", formatted("is {}, so NCCL does not use RDMA devices.", net),
            "NCCL_NET=IB"};
  }
  return {Health::kWarn, "NCCL_NET", "is not set: if NCCL refuses the device, it silently uses sockets.",
          "NCCL_NET=IB"};
}

Finding check_device_choice() {
  const std::string_view chosen = nccl_setting("NCCL_IB_HCA");
  const bool excludes = chosen.starts_with("^");
  if (chosen.empty() || (chosen.find("rrdma") != std::string_view::npos) != excludes)
    return {Health::kOk, "NCCL_IB_HCA", "admits rrdma0.", ""};
  return {Health::kBad, "NCCL_IB_HCA", formatted("is {}, which leaves out rrdma0.", chosen),
          "NCCL_IB_HCA=rrdma"};
}

Finding check_gpu_direct() {
  if (nccl_setting("NCCL_DMABUF_ENABLE") == "0") {
    return {Health::kWarn, "NCCL_DMABUF_ENABLE", "is 0, so NCCL does not find GPUDirect RDMA.",
            "unset NCCL_DMABUF_ENABLE"};
  }
  const std::string_view level = nccl_setting("NCCL_NET_GDR_LEVEL");
  if (level == "SYS" || level == "5")
    return {Health::kOk, "NCCL_NET_GDR_LEVEL", "NCCL uses GPUDirect RDMA at any distance.", ""};
  return {
      Health::kWarn, "NCCL_NET_GDR_LEVEL",
      "does not admit a device that is far from the GPU, and rrdma0 has no place on the PCI bus: NCCL moves "
      "data through host memory.",
      "NCCL_NET_GDR_LEVEL=SYS, or give the device a place: rrdma run --device rrdma0:pci=..."};
}

Finding check_host_names() {
  if (!nccl_setting("NCCL_HOSTID").empty()) {
    return {Health::kOk, "NCCL_HOSTID", "is set: ranks with different values may share a GPU.", ""};
  }
  return {
      Health::kOk, "NCCL_HOSTID",
      "is not set: each rank needs a GPU of its own, and ranks of one host use shared memory, not RDMA. A "
      "different value for each rank changes both.",
      ""};
}

bool has_mps() {
  const std::string_view folder = nccl_setting("CUDA_MPS_PIPE_DIRECTORY");
  return ::access(formatted("{}/control", folder.empty() ? "/tmp/nvidia-mps" : folder).c_str(), F_OK) == 0;
}

Finding check_queues() {
  const std::string_view wanted = nccl_setting("CUDA_DEVICE_MAX_CONNECTIONS");
  if (!wanted.empty() && std::atoi(wanted.data()) >= 8) {
    return {Health::kOk, "CUDA_DEVICE_MAX_CONNECTIONS", "copies have queues apart from those of kernels.",
            ""};
  }
  return {Health::kBad, "CUDA_DEVICE_MAX_CONNECTIONS",
          "the Multi-Process Service runs, and gives a process two queues to the GPU: a copy of RRDMA may be "
          "queued behind a kernel of NCCL that waits for it.",
          "CUDA_DEVICE_MAX_CONNECTIONS=8, for at most 12 processes on one GPU"};
}

}  // namespace

std::vector<Finding> check_nccl() {
  std::vector<Finding> findings = {check_cuda(), check_transport(), check_device_choice(), check_gpu_direct(),
                                   check_host_names()};
  if (has_mps()) findings.push_back(check_queues());
  return findings;
}

}  // namespace rrdma::tools

#include "nic/memory/cuda_identities.h"

#include <gtest/gtest.h>

#include <map>

namespace rrdma::nic::cuda_identities_test {

// The allocations that the driver knows, and how often it was asked about one.
struct Allocation {
  std::uint64_t octets;
  unsigned long long number;
};
std::map<std::uint64_t, Allocation> allocations;
int questions = 0;

const std::pair<const std::uint64_t, Allocation>* find(std::uint64_t address) {
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return nullptr;
  const auto& found = *--after;
  return address - found.first < found.second.octets ? &found : nullptr;
}

CudaResult attributes_of(unsigned count, int* attributes, void** values, CudaAddress address) {
  ++questions;
  const auto* const found = find(address);
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == kCudaAttributeMemoryType)
      *static_cast<unsigned*>(values[i]) = found != nullptr ? kCudaMemoryDevice : 0;
    if (attributes[i] == kCudaAttributeDeviceOrdinal)
      *static_cast<int*>(values[i]) = found != nullptr ? 0 : -2;
    if (attributes[i] == kCudaAttributeBufferId)
      *static_cast<unsigned long long*>(values[i]) = found != nullptr ? found->second.number : 0;
  }
  return kCudaSuccess;
}

CudaResult range_of(CudaAddress* first, std::size_t* octets, CudaAddress address) {
  const auto* const found = find(address);
  if (found == nullptr) return 1;
  *first = found->first;
  *octets = found->second.octets;
  return kCudaSuccess;
}

// As if addresses that were reserved together were one range.
CudaResult range_of_all(CudaAddress* first, std::size_t* octets, CudaAddress address) {
  if (find(address) == nullptr) return 1;
  const auto& [last, length] = *allocations.rbegin();
  *first = allocations.begin()->first;
  *octets = last + length.octets - *first;
  return kCudaSuccess;
}

class CudaIdentitiesTest : public testing::Test {
 protected:
  CudaIdentitiesTest() {
    cuda_.sharing = true;
    cuda_.cuPointerGetAttributes = attributes_of;
    cuda_.cuMemGetAddressRange = range_of;
    allocations = {{0x10000, {0x4000, 1}}, {0x14000, {0x4000, 2}}};
    identities_.add(5, 0x11000, 0x1000);
    questions = 0;
  }
  CudaLibrary cuda_{};
  CudaIdentities identities_{cuda_, 0};
};

TEST_F(CudaIdentitiesTest, OneQuestionAnswersForAllBytesOfACopy) {
  EXPECT_TRUE(identities_.holds(0x11000, 0x1000));
  EXPECT_EQ(questions, 1);
}

TEST_F(CudaIdentitiesTest, ACopyThatLeavesTheAllocationIsRefused) {
  EXPECT_FALSE(identities_.holds(0x13fff, 2));
  EXPECT_FALSE(identities_.holds(0xffff, 2));
  identities_.add(6, 0x14000, 8);
  EXPECT_TRUE(identities_.holds(0x13fff, 2));
}

TEST_F(CudaIdentitiesTest, FreedMemoryIsNotHeld) {
  allocations.erase(0x10000);
  EXPECT_FALSE(identities_.holds(0x11000, 8));
}

TEST_F(CudaIdentitiesTest, OtherMemoryAtTheAddressIsNotHeld) {
  allocations[0x10000].number = 3;
  EXPECT_FALSE(identities_.holds(0x11000, 8));
  EXPECT_EQ(identities_.find_stale(0x11000, 8), std::vector<std::uint32_t>{5});
}

TEST_F(CudaIdentitiesTest, AnAllocationIsForgottenWithItsLastRegion) {
  identities_.add(6, 0x10000, 8);
  identities_.remove(5);
  EXPECT_TRUE(identities_.holds(0x11000, 8));
  identities_.remove(6);
  EXPECT_FALSE(identities_.holds(0x11000, 8));
}

// The driver may report several allocations as one range: then both ends of a copy are looked up.
TEST_F(CudaIdentitiesTest, ARangeOfSeveralAllocationsIsNotTrusted) {
  identities_.remove(5);
  cuda_.cuMemGetAddressRange = range_of_all;
  identities_.add(7, 0x10000, 0x8000);
  EXPECT_TRUE(identities_.holds(0x10000, 8));
  allocations.erase(0x14000);
  EXPECT_FALSE(identities_.holds(0x13ff8, 16));
}

}  // namespace rrdma::nic::cuda_identities_test

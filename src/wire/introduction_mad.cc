#include "wire/introduction_mad.h"
#include "base/result_try.h"

namespace rrdma::wire {
namespace {

constexpr std::size_t kOuiOffset = 37;
constexpr std::size_t kVersionOffset = 40;
constexpr std::size_t kFeaturesOffset = 44;
constexpr std::size_t kEpochOffset = 48;
constexpr std::uint8_t kClassVersion = 1;

}  // namespace

bool is_introduction(Octets mad) {
  return mad.size() == kMadOctets && mad[0] == kMadBaseVersion && mad[1] == kIntroductionClass;
}

Result<Introduction, MadError> parse_introduction(Octets mad) {
  const auto header = parse_mad_header(mad);
  RRDMA_TRY(header);
  if (header->management_class != kIntroductionClass) return Failure{MadError::kWrongClass};
  const bool answer = header->method == static_cast<std::uint8_t>(MadMethod::kGetResponse);
  if (!answer && header->method != static_cast<std::uint8_t>(MadMethod::kGet))
    return Failure{MadError::kWrongMethod};
  Introduction introduction{
      .answer = answer, .status = header->status, .transaction_id = header->transaction_id};
  if (answer && header->status != 0) {
    introduction.version = 0;
    return introduction;
  }
  if (header->class_version != kClassVersion) return Failure{MadError::kUnknownClassVersion};
  if (header->attribute_id != kIntroductionAttribute ||
      load_be24(mad.data() + kOuiOffset) != kIntroductionOui)
    return Failure{MadError::kUnknownAttribute};
  introduction.version = load_be16(mad.data() + kVersionOffset);
  introduction.features = load_be32(mad.data() + kFeaturesOffset);
  introduction.epoch = load_be64(mad.data() + kEpochOffset);
  return introduction;
}

MadBuffer emit_introduction(const Introduction& introduction) {
  MadBuffer mad{};
  emit_mad_header(
      {.management_class = kIntroductionClass,
       .class_version = kClassVersion,
       .method = static_cast<std::uint8_t>(introduction.answer ? MadMethod::kGetResponse : MadMethod::kGet),
       .status = introduction.status,
       .transaction_id = introduction.transaction_id,
       .attribute_id = kIntroductionAttribute},
      mad);
  store_be24(mad.data() + kOuiOffset, kIntroductionOui);
  store_be16(mad.data() + kVersionOffset, introduction.version);
  store_be32(mad.data() + kFeaturesOffset, introduction.features);
  store_be64(mad.data() + kEpochOffset, introduction.epoch);
  return mad;
}

}  // namespace rrdma::wire

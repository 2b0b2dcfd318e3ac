// Percentiles of Latencies, and statistics in the text format of Prometheus.
#include "rrdma/rpc/statistics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>

namespace rrdma::rpc {
inline namespace v0 {

Latencies::Nanoseconds Latencies::percentile(double share) const {
  if (count_ == 0) return {};
  const auto wanted = static_cast<std::uint64_t>(
      std::clamp(std::ceil(share * static_cast<double>(count_)), 1.0, static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= wanted) return Nanoseconds(end_of(i));
  }
  return Nanoseconds(end_of(kBuckets - 1));
}

std::uint64_t Latencies::within(Nanoseconds duration) const {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets && end_of(i) <= static_cast<std::uint64_t>(duration.count()); ++i)
    seen += counts_[i];
  return seen;
}

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily family(const char* name, const char* help, MetricType type) {
  MetricFamily made;
  made.name = name;
  made.help = help;
  made.type = type;
  return made;
}

ClientMetric of(const MethodStatistics& method) {
  ClientMetric metric;
  metric.label = {{"service", method.service}, {"method", method.method}};
  return metric;
}

void add(MetricFamily& to, double value) {
  ClientMetric metric;
  (to.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  to.metric.push_back(std::move(metric));
}

ClientMetric histogram(const MethodStatistics& method) {
  ClientMetric metric = of(method);
  metric.histogram.sample_count = method.latencies.count();
  metric.histogram.sample_sum = std::chrono::duration<double>(method.latencies.sum()).count();
  const auto bucket = [&](double bound, std::uint64_t count) {
    ClientMetric::Bucket one;
    one.upper_bound = bound;
    one.cumulative_count = count;
    metric.histogram.bucket.push_back(one);
  };
  // 1, 2 and 5 of each decade, from one microsecond to ten seconds.
  for (std::int64_t decade = 1000; decade <= 1'000'000'000; decade *= 10) {
    for (const std::int64_t digit : {1, 2, 5}) {
      const std::chrono::nanoseconds bound(digit * decade);
      bucket(std::chrono::duration<double>(bound).count(), method.latencies.within(bound));
    }
  }
  bucket(INFINITY, method.latencies.count());
  return metric;
}

}  // namespace

std::string ServerStatistics::prometheus() const {
  MetricFamily open = family("rrdma_rpc_connections", "Connections that there are now", MetricType::Gauge);
  MetricFamily accepted =
      family("rrdma_rpc_connections_total", "Connections that were accepted", MetricType::Counter);
  MetricFamily turned_away =
      family("rrdma_rpc_connections_refused_total", "Connections that were refused", MetricType::Counter);
  MetricFamily broke = family("rrdma_rpc_connections_broken_total",
                              "Connections whose client broke the protocol", MetricType::Counter);
  add(open, static_cast<double>(connections));
  add(accepted, static_cast<double>(counters.connections));
  add(turned_away, static_cast<double>(counters.refused));
  add(broke, static_cast<double>(counters.broken));
  MetricFamily running = family("rrdma_rpc_calls_running", "Calls without a reply yet", MetricType::Gauge);
  MetricFamily ended =
      family("rrdma_rpc_calls_total", "Calls that have ended, by their status", MetricType::Counter);
  MetricFamily took =
      family("rrdma_rpc_call_seconds", "From a call's arrival until its reply", MetricType::Histogram);
  for (const MethodStatistics& method : methods) {
    running.metric.push_back(of(method));
    running.metric.back().gauge.value = static_cast<double>(method.running);
    for (std::size_t code = 0; code < method.ended.size(); ++code) {
      if (method.ended[code] == 0) continue;
      ended.metric.push_back(of(method));
      ended.metric.back().label.push_back({"code", std::string(name_of(static_cast<Code>(code)))});
      ended.metric.back().counter.value = static_cast<double>(method.ended[code]);
    }
    took.metric.push_back(histogram(method));
  }
  return ::prometheus::TextSerializer().Serialize({open, accepted, turned_away, broke, running, ended, took});
}

}  // namespace v0
}  // namespace rrdma::rpc

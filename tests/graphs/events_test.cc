#include "ramet/graphs/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "ramet/base/rng.h"
#include "ramet/graphs/read.h"
#include "ramet/graphs/transform.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using graphs::EventGraph;
using graphs::EventOptions;
using graphs::EventRange;
using graphs::EventRoom;
using graphs::EventSource;
using graphs::EventUse;
using graphs::GraphTables;
using graphs::Negatives;
using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<const EventGraph> graph_of(const std::string& text, const std::string& split = "") {
  GraphTables tables = graphs::parse_events(text, "events.txt");
  if (!split.empty()) graphs::apply_transform(tables, "split-by-time=" + split, "edge");
  const auto set = std::make_shared<const GraphSet>(std::move(tables), "events.txt");
  return std::make_shared<const EventGraph>(set, split.empty() ? "" : "edge.split");
}

template <typename T>
std::vector<T> values(const Batch& batch, const std::string& name) {
  const NamedTensor& tensor = batch.at(name);
  const auto* data = reinterpret_cast<const T*>(tensor.bytes.data());
  return {data, data + tensor.type.elements()};
}
std::vector<int32_t> ints(const Batch& batch, const std::string& name) { return values<int32_t>(batch, name); }

/// Events of 17 nodes with messages of two numbers, some at one time.
std::string drawn(int64_t count) {
  const RandomStream random(8, RandomPurpose::kTest, 0, 0);
  std::string text;
  for (uint64_t i = 0; std::cmp_less(i, count); ++i)
    text += std::to_string(random.below(4 * i, 12)) + " " + std::to_string(3 + random.below(4 * i + 1, 14)) + " " +
            std::to_string(100 + i / 2) + " 0." + std::to_string(i) + " " + std::to_string(i) + "\n";
  return text;
}

TEST(EventFiles, SnapJodieAndTablesAreRead) {
  const auto snap = graph_of("# a comment\n7 9 105.5\n9 8 101\r\n7 8 101\n");
  EXPECT_EQ(snap->nodes(), 3);
  ASSERT_EQ(snap->events(), 3);
  // By time, equal times in order of lines; nodes in order of appearance: 7, 9, 8.
  EXPECT_THAT((std::vector<int32_t>{snap->source(0), snap->source(1), snap->source(2)}), ElementsAre(1, 0, 0));
  EXPECT_THAT((std::vector<int32_t>{snap->target(0), snap->target(1), snap->target(2)}), ElementsAre(2, 2, 1));
  EXPECT_EQ(snap->time(2), 4.5);
  EXPECT_EQ(snap->message_width(), 0);

  const auto jodie = graph_of(
      "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n0,0,0.0,0,-0.5,2\n1,0,36.0,1,1,0.25\n");
  EXPECT_EQ(jodie->nodes(), 3);  // users 0 and 1, item 0
  EXPECT_EQ(jodie->target(0), jodie->target(1));
  EXPECT_NE(jodie->source(0), jodie->target(0));
  EXPECT_THAT(jodie->message(1), ElementsAre(1.0F, 0.25F));
  EXPECT_TRUE(jodie->set().has("edge.label"));

  const auto table = graph_of("time,source,target,weight\n5,a,b,0.5\n3,b,a,2\n");
  EXPECT_EQ(table->time(1), 2);
  EXPECT_EQ(table->message(0)[0], 2);
}

TEST(EventFiles, BadLinesAreNamed) {
  const auto error = [](const std::string& text) { return error_of([&] { graphs::parse_events(text, "e.txt"); }); };
  EXPECT_THAT(error(""), HasSubstr("e.txt: the file has no events"));
  EXPECT_THAT(error("1 2 3\n1 2\n"), HasSubstr("e.txt:2: a line is no event"));
  EXPECT_THAT(error("1 2 3\n1 2 nan\n"), HasSubstr("e.txt:2: a number is none, or not finite"));
  EXPECT_THAT(error("from,to,when\n1,2,3\n"), HasSubstr("e.txt:1: the first line does not say which columns"));
  EXPECT_THAT(error("1,,3\n"), HasSubstr("an event has no name of a node"));
  EXPECT_THAT(
      error("user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n0,0,0.5\n"),
      HasSubstr("e.txt:2: a line is no event; found '0,0,0.5'; expected at least 4 words, as the first line says"));
}

TEST(EventFiles, PartsFollowOneAnotherInTime) {
  const auto graph = graph_of(drawn(40), "70:15:15");
  const EventRange train = graph->part("train"), validation = graph->part("validation"), test = graph->part("test");
  EXPECT_EQ(train.begin, 0);
  EXPECT_EQ(train.end, validation.begin);
  EXPECT_EQ(validation.end, test.begin);
  EXPECT_EQ(test.end, 40);
  EXPECT_EQ(train.size(), 28);  // the quantile 0.7 of 0, 0, 1, 1, ... 19, 19 is 13.3
  EXPECT_THAT(error_of([&] { graph_of(drawn(40), "100:0:0")->part("test"); }),
              HasSubstr("a part of the events is empty; found 'test'"));
  EXPECT_THAT(error_of([&] { graph_of(drawn(40))->part("validation"); }), HasSubstr("a part of the events is empty"));
  const std::string wrong = "source,target\n1,2\n";
  const auto set =
      std::make_shared<const GraphSet>(graphs::parse_csv_graphs({wrong, "", ""}, "no-time.csv"), "no-time");
  EXPECT_THAT(error_of([&] { EventGraph none(set, ""); }), HasSubstr("the edges of the graph set have no time"));
}

/// What a node knows before event `end`, from the list of events alone.
struct Seen {
  int32_t other;
  int64_t event;
};
std::vector<Seen> seen_by(const EventGraph& graph, int32_t node, int64_t end) {
  std::vector<Seen> seen;
  for (int64_t e = 0; e < end; ++e) {
    if (graph.source(e) == node) seen.push_back({graph.target(e), e});
    if (graph.target(e) == node) seen.push_back({graph.source(e), e});
  }
  return seen;
}

class EventSamples : public testing::TestWithParam<EventUse> {
 protected:
  static constexpr int64_t kBatch = 6, kRecent = 3;
  std::shared_ptr<const EventGraph> graph_ = graph_of(drawn(50), "70:15:15");
  EventOptions options_{.batch = kBatch, .recent = kRecent, .seed = 4};
};

TEST_P(EventSamples, HoldWhatTheEventsBeforeSay) {
  const EventUse use = GetParam();
  const int64_t samples = use == EventUse::kTrain ? 12 : 3;
  const EventRoom room = EventSource::room_of(*graph_, options_, use, "test", samples);
  const EventSource source(graph_, options_, use, "test", room);
  EXPECT_EQ(source.epoch_samples(0), use == EventUse::kTrain ? 6 : 3);  // 36 of 50 events; 6 and 8
  const int64_t evaluated = graph_->part("validation").begin;
  for (int64_t i = 0; i < samples; ++i) {
    SCOPED_TRACE(i);
    const Batch batch = source.make(i, 1);
    const EventRange events = source.events_of(i);
    const std::vector<int32_t> negatives = source.negatives_of(i);
    const auto node = ints(batch, "node"), partner = ints(batch, "partner"), ptr = ints(batch, "ptr"),
               from = ints(batch, "source"), at_source = ints(batch, "event_source"),
               at_target = ints(batch, "event_target"), at_negative = ints(batch, "event_negative");
    const auto real = values<uint8_t>(batch, "real"), has = values<uint8_t>(batch, "has_message");
    const auto message = values<float>(batch, "message"), edge_message = values<float>(batch, "edge_message"),
               message_time = values<float>(batch, "message_time"), edge_time = values<float>(batch, "edge_time");
    for (int64_t k = 0; k < kBatch; ++k) {
      const auto slot = static_cast<size_t>(k);
      ASSERT_EQ(real[slot], k < events.size());
      if (!real[slot]) continue;
      EXPECT_EQ(node[static_cast<size_t>(at_source[slot])], graph_->source(events.begin + k));
      EXPECT_EQ(node[static_cast<size_t>(at_target[slot])], graph_->target(events.begin + k));
      EXPECT_EQ(node[static_cast<size_t>(at_negative[slot])], negatives[slot]);
      EXPECT_LT(at_source[slot], room.members);
      EXPECT_LT(at_target[slot], room.members);
      EXPECT_LT(at_negative[slot], room.targets());
    }
    // Nodes with a message stand before those without, in each group of nodes.
    EXPECT_TRUE(std::is_sorted(has.begin(), has.begin() + room.members, std::greater()));
    EXPECT_TRUE(std::is_sorted(has.begin() + room.members, has.begin() + room.targets(), std::greater()));
    std::set<int32_t> unique;
    for (size_t n = 0; n < node.size(); ++n) {
      if (node[n] == graph_->nodes()) {
        EXPECT_EQ(has[n], 0);
        continue;
      }
      EXPECT_TRUE(unique.insert(node[n]).second);
      const std::vector<Seen> seen = seen_by(*graph_, node[n], events.begin);
      ASSERT_EQ(has[n], !seen.empty());
      if (std::cmp_less(n, room.targets())) {
        const size_t last = std::min<size_t>(seen.size(), kRecent);
        ASSERT_EQ(ptr[n + 1] - ptr[n], last);
        for (size_t j = 0; j < last; ++j) {
          const auto edge = static_cast<size_t>(ptr[n]) + j;
          const Seen& expected = seen[seen.size() - last + j];
          EXPECT_EQ(node[static_cast<size_t>(from[edge])], expected.other);
          EXPECT_EQ(edge_message[2 * edge + 1], graph_->message(expected.event)[1]);
          const std::vector<Seen> of_other = seen_by(*graph_, expected.other, events.begin);
          EXPECT_EQ(edge_time[edge], graph_->time(of_other.back().event) - graph_->time(expected.event));
        }
      }
      if (seen.empty()) continue;
      EXPECT_EQ(partner[n], seen.back().other);
      EXPECT_EQ(message[2 * n], graph_->message(seen.back().event)[0]);
      // The samples of each part begin with the part.
      int64_t begin = seen.back().event / kBatch * kBatch;
      for (const char* const part : {"validation", "test"})
        if (const EventRange range = graph_->part(part); seen.back().event >= range.begin)
          begin = range.begin + (seen.back().event - range.begin) / kBatch * kBatch;
      const std::vector<Seen> earlier = seen_by(*graph_, node[n], begin);
      EXPECT_EQ(message_time[n],
                graph_->time(seen.back().event) - (earlier.empty() ? 0 : graph_->time(earlier.back().event)));
      if (use == EventUse::kTrain) continue;
      EXPECT_EQ(values<uint8_t>(batch, "continued")[n], seen.back().event >= evaluated);
      EXPECT_EQ(values<uint8_t>(batch, "partner_continued")[n],
                seen_by(*graph_, partner[n], events.begin).back().event >= evaluated);
    }
  }
}

/// Both lists hold the same edges, and edges of one node ascend in both.
TEST_P(EventSamples, ListTheirEdgesTwice) {
  const EventUse use = GetParam();
  const EventRoom room = EventSource::most_room(*graph_, options_);
  const EventSource source(graph_, options_, use, "test", room);
  const Batch batch = source.make(2, 1);
  const auto from = ints(batch, "source"), ptr = ints(batch, "ptr"), target_of = ints(batch, "target_of"),
             by_source = ints(batch, "by_source"), source_ptr = ints(batch, "source_ptr");
  ASSERT_GT(ptr.back(), 10);
  ASSERT_EQ(source_ptr.back(), ptr.back());
  for (int64_t n = 0; n < room.nodes(); ++n)
    for (int32_t slot = source_ptr[static_cast<size_t>(n)]; slot < source_ptr[static_cast<size_t>(n) + 1]; ++slot) {
      const int32_t edge = by_source[static_cast<size_t>(slot)], target = target_of[static_cast<size_t>(slot)];
      EXPECT_EQ(from[static_cast<size_t>(edge)], n);
      EXPECT_TRUE(ptr[static_cast<size_t>(target)] <= edge && edge < ptr[static_cast<size_t>(target) + 1]);
      if (slot > source_ptr[static_cast<size_t>(n)]) {
        EXPECT_GT(edge, by_source[static_cast<size_t>(slot) - 1]);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Events, EventSamples, testing::Values(EventUse::kTrain, EventUse::kEvaluate));

TEST(EventSource, ASampleDependsOnItsNumberAlone) {
  const auto graph = graph_of(drawn(50), "70:15:15");
  const EventOptions options{.batch = 6, .recent = 3, .seed = 4};
  const EventRoom room = EventSource::most_room(*graph, options);
  const EventSource source(graph, options, EventUse::kTrain, "", room),
      again(graph, options, EventUse::kTrain, "", room);
  std::vector<Batch> forward, backward(12);
  for (int64_t i = 0; i < 12; ++i) forward.push_back(source.make(i, 1));
  std::vector<std::jthread> threads;
  for (int64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 11 - t; i >= 0; i -= 3) backward[static_cast<size_t>(i)] = again.make(i, 1);
    });
  threads.clear();
  for (size_t i = 0; i < 12; ++i)
    for (size_t k = 0; k < forward[i].tensors.size(); ++k)
      EXPECT_EQ(forward[i].tensors[k].bytes, backward[i].tensors[k].bytes) << i << " " << forward[i].tensors[k].name;
  // An epoch has the events of the one before and other negatives.
  EXPECT_EQ(ints(forward[0], "event_source"), ints(forward[6], "event_source"));
  EXPECT_NE(source.negatives_of(0), source.negatives_of(6));
  EXPECT_EQ(source.epoch_of(6), 1);
}

TEST(EventSource, NegativesAreDestinations) {
  const auto graph = graph_of(drawn(50));
  for (const Negatives kind : {Negatives::kRandom, Negatives::kStrict}) {
    const EventOptions options{.batch = 10, .recent = 3, .negatives = kind, .seed = 4};
    const EventSource source(graph, options, EventUse::kTrain, "", EventSource::most_room(*graph, options));
    std::set<int32_t> seen;
    int64_t met = 0;
    for (int64_t i = 0; i < 200; ++i) {
      const EventRange events = source.events_of(i);
      const std::vector<int32_t> negatives = source.negatives_of(i);
      for (int64_t k = 0; k < events.size(); ++k) {
        const int32_t negative = negatives[static_cast<size_t>(k)];
        seen.insert(negative);
        met += graph->met(graph->source(events.begin + k), negative, graph->events());
      }
    }
    EXPECT_THAT(seen, testing::ElementsAreArray(graph->destinations()));
    if (kind == Negatives::kStrict)
      EXPECT_EQ(met, 0);
    else
      EXPECT_GT(met, 0);
  }
  const auto complete = graph_of("a b 1\na c 2\nb c 3\n");
  EXPECT_THAT(error_of([&] {
                const EventOptions options{.batch = 2, .negatives = Negatives::kStrict};
                EventSource(complete, options, EventUse::kTrain, "", EventSource::most_room(*complete, options));
              }),
              HasSubstr("a node has events with all destinations"));
}

TEST(EventSource, RoomIsTheLeastThatFits) {
  const auto graph = graph_of(drawn(50), "70:15:15");
  const EventOptions options{.batch = 6, .recent = 3, .seed = 4};
  const EventRoom room = EventSource::room_of(*graph, options, EventUse::kTrain, "", 60);
  const EventRoom most = EventSource::most_room(*graph, options);
  EXPECT_LE(room.nodes(), most.nodes());
  const auto fits = [&](const EventRoom& tried) {
    const EventSource source(graph, options, EventUse::kTrain, "", tried);
    for (int64_t i = 0; i < 60; ++i) source.make(i, 1);
  };
  fits(room), fits(most);
  for (int64_t EventRoom::* const part :
       {&EventRoom::members, &EventRoom::others, &EventRoom::neighbors, &EventRoom::edges}) {
    EventRoom less = room;
    --(less.*part);
    EXPECT_THAT(error_of([&] { fits(less); }), HasSubstr("a batch of events does not fit the room"));
  }
}

}  // namespace
}  // namespace ramet::tests

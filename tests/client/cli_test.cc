// The program as people run it: a process, its streams and its exit code.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "beamwright/v1/rule.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "ops/base/file.h"
#include "tests/client/fake_server.h"
#include "tests/client/process.h"

namespace beamwright::client {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Runs a Python script over the program's output and returns what it prints.
std::string Python(const std::string& script, const std::string& input) {
  const ProcessResult result = RunProcess({"/usr/bin/python3", "-c", script}, input);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

TEST(DecodeCommandTest, PrintsAnAlignedTable) {
  FakeServer server(
      [](grpc::ServerContext&, const v1::DecodeRequest&, v1::DecodeResponse& response) {
        v1::Decoded* decoded = response.add_results()->mutable_decoded();
        v1::Hypothesis* first = decoded->add_hypotheses();
        first->set_text("HH AH0");
        first->set_score(-0.5);
        first->set_log_prob(-1.25);
        first->mutable_tokens()->Add(5);
        first->mutable_tokens()->Add(6);
        first->mutable_tokens()->Add(1);
        first->mutable_alignment()->Add(0);
        first->mutable_alignment()->Add(3);
        first->mutable_alignment()->Add(4);
        v1::Hypothesis* second = decoded->add_hypotheses();
        second->add_tokens(4);
        second->add_tokens(17);
        second->mutable_alignment()->Add(2);
        second->mutable_alignment()->Add(0);
        second->set_score(-10.12345);
        second->set_log_prob(-123.5);
        second->set_finish_reason(v1::FINISH_REASON_LENGTH);
        v1::Hypothesis* third = decoded->add_hypotheses();
        third->set_text("\x1b[31mred");
        v1::Hypothesis* characters = decoded->add_hypotheses();
        characters->set_text("c é");
        for (const int token : {7, 3, 9, 1}) {
          characters->add_tokens(token);
          characters->add_alignment(token % 3);
        }
        v1::Word& word = *characters->add_words();
        word.set_text("c");
        word.set_confidence(0.5);
        word.set_posterior(0.25);
        decoded->add_unknown_positions(2);
        decoded->add_unknown_positions(5);
        return grpc::Status::OK;
      });
  const ProcessResult result = Beamwright({"decode", "--server", server.address(), "hello"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out,
            "hello\n"
            "  rank     score   log-prob  text\n"
            "     1   -0.5000    -1.2500  HH AH0\n"
            "                             HH-0 AH0-3\n"
            "     2  -10.1235  -123.5000  ids 4 17 [cut at the maximum length]\n"
            "                             4-2 17-0\n"
            "     3    0.0000     0.0000  \\x1b[31mred\n"
            "     4    0.0000     0.0000  c é\n"
            "                             c-1 ␣-0 é-0\n"
            "                             c 0.50 [0.25]\n"
            "  not in the vocabulary, read as the unknown token: position 2, 5\n");
}

TEST(DecodeCommandTest, PrintsJsonThatOthersCanRead) {
  FakeServer server;
  const ProcessResult result = Beamwright({"decode", "--json", "he\"llo\n\xc3\xa9", "bad one"}, "",
                                          {"BEAMWRIGHT_SERVER=" + server.address()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("source 2 \"bad one\": INVALID_ARGUMENT: cannot decode"));
  EXPECT_EQ(Python(R"(
import json, sys
a, b = [json.loads(line) for line in sys.stdin]
assert a["source"]["text"] == "he\"llo\n\u00e9", a
assert a["model"] == "echo" and a["version"] == "7" and a["numerics"] == "fake-f32"
best = a["result"]["decoded"]["hypotheses"][0]
assert best["text"].startswith("HE\"LLO") and best["log_prob"] == -1.5 and best["score"] == -0.75
assert best["finish_reason"] == "FINISH_REASON_EOS" and best["tokens"] == []
assert b["result"]["error"] == {"code": 3, "message": "cannot decode bad one", "details": []}, b
print("fine"))",
                   result.out),
            "fine\n");
}

// Nor does the command stop at a call none of whose sources has an answer.
TEST(DecodeCommandTest, CallsWithoutAnAnswerAreToldSourceBySource) {
  FakeServer server;
  const std::string input = "bad 1\nbad 2\ngood\nbad 4\n";
  const ProcessResult json =
      Beamwright({"decode", "--server", server.address(), "--json", "--batch", "2"}, input);
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(json.err,
            "beamwright decode: source 1 \"bad 1\": INVALID_ARGUMENT: cannot decode bad 1\n"
            "beamwright decode: source 2 \"bad 2\": INVALID_ARGUMENT: cannot decode bad 2\n"
            "beamwright decode: source 4 \"bad 4\": INVALID_ARGUMENT: cannot decode bad 4\n");
  EXPECT_EQ(Python(R"(
import json, sys
a, b, c, d = [json.loads(line) for line in sys.stdin]
assert c["result"]["decoded"]["hypotheses"][0]["text"] == "GOOD" and c["model"] == "echo", c
for found, number in ((a, 1), (b, 2), (d, 4)):
    error = found["result"]["error"]
    assert error == {"code": 3, "message": f"cannot decode bad {number}", "details": []}, error
print("fine"))",
                   json.out),
            "fine\n");
  const ProcessResult stream =
      Beamwright({"decode", "--server", server.address(), "--stream"}, input);
  EXPECT_EQ(stream.exit_code, 1);
  EXPECT_THAT(stream.err, AllOf(HasSubstr("\"bad 1\""), HasSubstr("\"bad 4\"")));
  EXPECT_THAT(stream.out, HasSubstr("GOOD"));
}

TEST(ScoreCommandTest, CallsWithoutAnAnswerAreToldSourceBySource) {
  FakeServer server;
  const std::string input = "bad 1\tx\nbad 2\tx\ngood\tx\nbad 4\tx\n";
  const ProcessResult result =
      Beamwright({"score", "--server", server.address(), "--batch", "2"}, input);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "beamwright score: \"bad 1\": INVALID_ARGUMENT: cannot decode bad 1\n"
            "beamwright score: \"bad 2\": INVALID_ARGUMENT: cannot decode bad 2\n"
            "beamwright score: \"bad 4\": INVALID_ARGUMENT: cannot decode bad 4\n");
  EXPECT_THAT(result.out, AllOf(HasSubstr("good"), HasSubstr("2.0000")));
}

// The details of an error are messages of other types, whose names come with them.
TEST(DecodeCommandTest, JsonHasTheDetailsOfErrorsThatItKnows) {
  FakeServer server([](grpc::ServerContext& context, const v1::DecodeRequest& request,
                       v1::DecodeResponse& response) {
    const grpc::Status status = EchoAll(context, request, response);
    google::rpc::Status& error = *response.mutable_results(0)->mutable_error();
    google::rpc::ErrorInfo info;
    info.set_reason("INVALID_REQUEST");
    error.add_details()->PackFrom(info);
    google::protobuf::Any& unknown = *error.add_details();
    unknown.set_type_url("type.googleapis.com/of.the.Future");
    unknown.set_value("\x0a\x01x");
    google::rpc::BadRequest bad;
    bad.add_field_violations()->set_field("text");
    error.add_details()->PackFrom(bad);
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(1);
    error.add_details()->PackFrom(retry);
    return status;
  });
  const ProcessResult result =
      Beamwright({"decode", "--server", server.address(), "--json", "bad", "good"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(Python(R"(
import json, sys
a, b = [json.loads(line) for line in sys.stdin]
assert b["result"]["decoded"]["hypotheses"][0]["text"] == "GOOD", b
info, bad, retry = a["result"]["error"]["details"]
assert info["@type"].endswith("/google.rpc.ErrorInfo") and info["reason"] == "INVALID_REQUEST"
assert bad["field_violations"][0]["field"] == "text", bad
assert retry["retry_delay"] == "1s", retry
print("fine"))",
                   result.out),
            "fine\n");
}

TEST(DecodeCommandTest, ALineThatIsNotUtf8IsNamedAndStopsNothing) {
  FakeServer server;
  const std::vector<std::string> decode = {"decode", "--server", server.address(), "--json"};
  const ProcessResult result = Beamwright(decode, "cat\na\xff\ndog\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "beamwright decode: source 2 \"a\\xff\": INVALID_ARGUMENT: not UTF-8 at byte 1\n");
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"CAT\""), HasSubstr("\"DOG\""),
                                HasSubstr("not UTF-8 at byte 1\"")));
  const ProcessResult ids =
      Beamwright({"decode", "--server", server.address(), "--ids"}, "3\n\xff\n4\n");
  EXPECT_THAT(ids.err, HasSubstr("source 2 \"\\xff\": INVALID_ARGUMENT: not UTF-8"));
  EXPECT_THAT(ids.out, AllOf(StartsWith("3\n"), HasSubstr("\n4\n")));
}

TEST(DecodeCommandTest, ReadsStandardInputAndKeepsTheOrderOfManyLines) {
  // The very first call is answered last of those in flight.
  FakeServer* server_pointer = nullptr;
  FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                        v1::DecodeResponse& response) {
    if (request.sources(0).text() == "line0") {
      server_pointer->WaitForRequests(8);
    }
    return EchoAll(context, request, response);
  });
  server_pointer = &server;
  std::string input;
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&input, i == 500 ? "bad" : "line", i, i % 2 == 0 ? "\n" : "\r\n");
  }
  const ProcessResult result = Beamwright(
      {"decode", "--server", server.address(), "--json", "--batch", "10", "--outstanding", "8"},
      input);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, StartsWith("beamwright decode: source 501 \"bad500\""));
  const std::vector<std::string> lines = absl::StrSplit(result.out, '\n');
  ASSERT_EQ(lines.size(), 1001u);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_THAT(lines[i],
                HasSubstr(i == 500 ? "cannot decode bad500\"" : absl::StrCat("\"LINE", i, "\"")));
  }
  EXPECT_EQ(server.requests().size(), 100u);
  EXPECT_EQ(server.requests()[0].sources_size(), 10);
}

// A separate terminal for the command, by `script` of util-linux; returns what the terminal
// shows.
std::string OnTerminal(const std::string& shell_command) {
  const ProcessResult result = RunProcess({"/usr/bin/script", "-qec", shell_command, "/dev/null"});
  EXPECT_EQ(result.exit_code, 0) << result.out;
  return result.out;
}

TEST(DecodeCommandTest, ShowsProgressOfLongInputsOnATerminal) {
  FakeServer server;
  const std::string path = testing::TempDir() + "/beamwright-long.txt";
  {
    std::ofstream file(path);
    for (int i = 0; i < 2000; ++i) {
      file << "line" << i << "\n";
    }
  }
  const std::string command =
      absl::StrCat(BEAMWRIGHT_PROGRAM, " decode --server ", server.address(), " --file ", path);
  EXPECT_THAT(OnTerminal(command + " > /dev/null"),
              AllOf(HasSubstr("[####"), HasSubstr(" sources, "), EndsWith("\r\x1b[K")));
  // Where answers go to the terminal a bar would be in their way.
  EXPECT_THAT(OnTerminal(command), Not(HasSubstr("\x1b[K")));
  std::filesystem::remove(path);
}

TEST(DecodeCommandTest, SourcesAreBoldOnATerminalOnly) {
  FakeServer server;
  const std::string command =
      absl::StrCat(BEAMWRIGHT_PROGRAM, " decode --server ", server.address(), " hello");
  EXPECT_THAT(OnTerminal("unset NO_COLOR; " + command), StartsWith("\x1b[1mhello\x1b[0m\r\n"));
  EXPECT_THAT(OnTerminal("NO_COLOR=1 " + command), StartsWith("hello\r\n"));
}

TEST(DecodeCommandTest, ReadsAFileAndTokenIds) {
  FakeServer server;
  const std::string path = testing::TempDir() + "/beamwright-ids.txt";
  std::ofstream(path) << "3 17, 4\nx 1\n5";
  const ProcessResult result = Beamwright({"decode", "--server", server.address(), "--ids",
                                           "--file", path, "--model", "m", "--version", "2"});
  std::filesystem::remove(path);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("source 2 \"x 1\": INVALID_ARGUMENT: \"x\" is not a token id"));
  EXPECT_THAT(result.out, AllOf(HasSubstr("ids 3 17 4"), HasSubstr("ids 5")));
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].model(), "m");
  EXPECT_EQ(server.requests()[0].version(), "2");
  EXPECT_EQ(server.requests()[0].sources(1).ids().ids(0), 5);
}

TEST(DecodeCommandTest, StatesAreFiles) {
  FakeServer server(
      [](grpc::ServerContext&, const v1::DecodeRequest&, v1::DecodeResponse& response) {
        response.add_results()->mutable_decoded()->set_state(std::string("new\0state", 9));
        return grpc::Status::OK;
      });
  const std::string before = testing::TempDir() + "/beamwright-state-before";
  const std::string after = testing::TempDir() + "/beamwright-state-after";
  std::ofstream(before, std::ios::binary) << std::string("old\0state", 9);
  const ProcessResult result = Beamwright({"decode", "--server", server.address(), "--prompt", "x",
                                           "--state", before, "--save-state", after});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].sources(0).state(), std::string("old\0state", 9));
  EXPECT_EQ(server.requests()[0].options().target_prefix().text(), "x");
  EXPECT_TRUE(server.requests()[0].options().return_state());
  EXPECT_EQ(*ReadFile(after), std::string("new\0state", 9));
  std::filesystem::remove(before);
  std::filesystem::remove(after);
}

// Of a model without an encoder: no source, and answers begin with the prompt.
TEST(DecodeCommandTest, APromptStandsInTheSourcesPlace) {
  FakeServer server(
      [](grpc::ServerContext&, const v1::DecodeRequest&, v1::DecodeResponse& response) {
        v1::Hypothesis& answer = *response.add_results()->mutable_decoded()->add_hypotheses();
        answer.set_text("once upon a time");
        answer.set_prefix_length(2);
        return grpc::Status::OK;
      });
  const auto decode = [&server](const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"decode", "--server", server.address()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return Beamwright(all);
  };
  const ProcessResult text = decode({"--prompt", "once upon"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(StartsWith("once upon\n"), HasSubstr("once upon a time")));
  EXPECT_EQ(decode({"--prompt", "7 9", "--ids"}).exit_code, 0);
  EXPECT_EQ(decode({"--prompt", ""}).exit_code, 0);
  const std::vector<v1::DecodeRequest> requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  for (const v1::DecodeRequest& request : requests) {
    ASSERT_EQ(request.sources_size(), 1);
    EXPECT_EQ(request.sources(0).kind_case(), v1::Source::KIND_NOT_SET);
  }
  EXPECT_EQ(requests[0].options().target_prefix().text(), "once upon");
  EXPECT_THAT(requests[1].options().target_prefix().ids().ids(), ::testing::ElementsAre(7, 9));
  EXPECT_FALSE(requests[2].options().has_target_prefix());
}

// A value for a field, inside its rule and other than its default, as text and in the message.
std::string ChooseValue(const google::protobuf::FieldDescriptor& field,
                        google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const v1::FieldRule& rule = field.options().GetExtension(v1::rule);
  const auto* reflection = message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      const int32_t value = rule.has_maximum() ? static_cast<int32_t>(rule.maximum()) : 7;
      reflection->SetInt32(&message, &field, value);
      return absl::StrCat(value);
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      const float value = 0.25f;  // every range holds it, no default is it
      reflection->SetFloat(&message, &field, value);
      return absl::StrCat(value);
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection->SetBool(&message, &field, true);
      return "";
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* value = field.enum_type()->value(field.enum_type()->value_count() - 1);
      reflection->SetEnum(&message, &field, value);
      // LENGTH_PENALTY_GNMT of enum LengthPenalty: what follows the name's length and a separator.
      const std::string name = value->name();
      const size_t prefix = std::string(field.enum_type()->value(0)->name()).find("UNSPECIFIED");
      return absl::AsciiStrToLower(absl::StrReplaceAll(name.substr(prefix), {{"_", "-"}}));
    }
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.is_repeated()) {
        reflection->AddString(&message, &field, "name");
      } else {
        reflection->SetString(&message, &field, "name");
      }
      return "name";
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      auto* value = field.is_repeated() ? reflection->AddMessage(&message, &field)
                                        : reflection->MutableMessage(&message, &field);
      const auto* type = field.message_type();
      if (const auto* text = type->FindFieldByName("text")) {
        value->GetReflection()->SetString(value, text, "a b");
        return "a b";
      }
      value->GetReflection()->SetString(value, type->FindFieldByName("name"), "a b");
      value->GetReflection()->SetFloat(value, type->FindFieldByName("weight"), 0.25f);
      return "a b:0.25";
    }
    default:
      ADD_FAILURE() << "teach this test to choose a value for " << field.full_name();
      return "";
  }
}

TEST(DecodeCommandTest, EveryDecodeOptionIsReachable) {
  FakeServer server;
  const auto* type = v1::DecodeOptions::descriptor();
  v1::DecodeOptions all;
  std::vector<std::string> all_arguments = {"decode", "--server", server.address(), "x"};
  for (int i = 0; i < type->field_count(); ++i) {
    const auto& field = *type->field(i);
    const std::string flag = "--" + absl::StrReplaceAll(field.name(), {{"_", "-"}});
    const std::string value = ChooseValue(field, all);
    all_arguments.push_back(flag);
    if (!value.empty()) {
      all_arguments.push_back(value);
    }
    const ProcessResult help = Beamwright({"decode", "--help"});
    EXPECT_THAT(help.out, AnyOf(HasSubstr("  " + flag + " "), HasSubstr("  -n," + flag + " ")));
  }
  const ProcessResult result = Beamwright(all_arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  ASSERT_EQ(server.requests().size(), 1u);
  std::string differences;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&differences);
  EXPECT_TRUE(differencer.Compare(all, server.requests()[0].options())) << differences;
}

TEST(DecodeCommandTest, UnsetOptionsStayUnset) {
  FakeServer server;
  ASSERT_EQ(Beamwright({"decode", "--server", server.address(), "--length-penalty", "pow:0.6", "x"})
                .exit_code,
            0);
  EXPECT_EQ(server.requests()[0].options().ShortDebugString(),
            "length_penalty: LENGTH_PENALTY_POW length_penalty_alpha: 0.6");
}

TEST(DecodeCommandTest, ServersErrorsAreForPeople) {
  const ProcessResult unreachable = Beamwright({"decode", "--server", "127.0.0.1:1", "x"});
  EXPECT_EQ(unreachable.exit_code, 1);
  EXPECT_EQ(unreachable.err,
            "beamwright decode: no server answers at 127.0.0.1:1 (Connection refused); --server or "
            "BEAMWRIGHT_SERVER names another one\n");
  absl::Notification release;
  FakeServer server(
      [&](grpc::ServerContext&, const v1::DecodeRequest& request, v1::DecodeResponse&) {
        if (request.sources(0).text() == "slow") {
          release.WaitForNotification();
        }
        return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no model zebra");
      });
  const ProcessResult unknown = Beamwright({"decode", "--server", server.address(), "x"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_EQ(unknown.err, "beamwright decode: NOT_FOUND: there is no model zebra\n");
  const ProcessResult slow =
      Beamwright({"decode", "--server", server.address(), "--timeout", "50ms", "slow"});
  EXPECT_EQ(slow.exit_code, 1);
  EXPECT_THAT(slow.err, HasSubstr("source 1 \"slow\": DEADLINE_EXCEEDED"));
  release.Notify();
}

TEST(ExplainCommandTest, NeedsATraceAndAHypothesis) {
  FakeServer server;
  const ProcessResult old = Beamwright({"explain", "--server", server.address(), "x"});
  EXPECT_EQ(old.exit_code, 1);
  EXPECT_THAT(old.err, HasSubstr("the answer has no trace"));
  FakeServer refuses(
      [](grpc::ServerContext&, const v1::DecodeRequest& request, v1::DecodeResponse&) {
        EXPECT_EQ(request.options().trace(), 64);
        return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no traces\x1b[2J");
      });
  const ProcessResult refused = Beamwright({"explain", "--server", refuses.address(), "x"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("PERMISSION_DENIED: no traces\\x1b[2J"));
  FakeServer empty(
      [](grpc::ServerContext&, const v1::DecodeRequest&, v1::DecodeResponse& response) {
        response.add_results()->mutable_decoded()->mutable_trace();
        return grpc::Status::OK;
      });
  const ProcessResult none = Beamwright({"explain", "--server", empty.address(), "x"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("has no hypothesis"));
}

TEST(CommandLineTest, NonsenseIsAUsageError) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{},
       "a command is missing; there are decode, recognize, translate, explain, score, align, "
       "models"},
      {{"decod"},
       "there is no command decod (did you mean decode?); there are decode, recognize, "
       "translate, explain, score, align, models, health, load-test, stream-test, load-merge and "
       "capacity"},
      {{"help", "decod"}, "there is no command decod (did you mean decode?)"},
      {{"-x"}, "there is no flag -x; there are decode"},
      {{"decode", "--beam-size", "0", "x"}, "--beam-size: \"0\" is out of range: 1 to 256"},
      {{"decode", "--beam-size", "four", "x"}, "\"four\" is not a whole number: 1 to 256"},
      {{"decode", "--length-penalty-alpha", "-10.5", "x"}, "-10 to 10"},
      {{"decode", "--stop", "soon", "x"}, "safe, first, count, never or heuristic"},
      {{"decode", "--beam-size", "4", "--beam-size", "5", "x"}, "--beam-size"},
      {{"decode", "--beam", "4", "x"}, "--beam"},
      {{"decode", "--beamsize", "4", "x"}, "; did you mean --beam-size?"},
      {{"load-test", "--concurency=4", "x"}, "; did you mean --concurrency?"},
      {{"decode", "--\x1b[2J", "x"}, "--\\x1b[2J"},
      {{"decode", "--file", "/no/such/file"}, "cannot read /no/such/file"},
      {{"decode", "--file", "/tmp"}, "/tmp is a folder"},
      {{"decode", "--file", "/dev/null", "x"}, "both as arguments and by --file"},
      {{"decode", "--ids", "3 x"}, "\"x\" is not a token id"},
      {{"decode", "--prompt", "once", "x"}, "--prompt: there are sources as well"},
      {{"decode", "--save-state", "/tmp/state", "x"}, "need --prompt"},
      {{"decode", "--prompt", "x", "--stream", "--save-state", "/tmp/state"},
       "not there with --stream"},
      {{"decode", "--prompt", "once", "--target-prefix", "on"},
       "there is a --target-prefix as well"},
      {{"decode", "--ids", "-- -3"}, "not a token id"},
      {{"decode", "x\xff"}, "not UTF-8 at byte 1"},
      {{"decode", "--timeout", "30", "x"}, "\"30\" has no unit; write 30s"},
      {{"load-test", "--warmup", "3", "x"}, "\"3\" has no unit; write 3s"},
      {{"decode", "--features", "/no/such.npy"}, "/no/such.npy"},
      {{"decode", "--server", "http://h:8000", "x"}, "is a URL; expected host:port"},
      {{"decode", "--timeout", "soon", "x"}, "--timeout: \"soon\" is not a duration"},
      {{"decode", "--batch", "0", "x"}, "--batch: \"0\" is not a whole number from 1 to 4096"},
      {{"decode", "--server", "a b", "x"}, "white space"},
      {{"decode", "--server", "127.0.0.1:x", "x"}, "\"127.0.0.1:x\" has no port from 1 to 65535"},
      {{"models", "--server", ":99999"}, "\":99999\" has no port from 1 to 65535"},
      {{"health", "--server", "[::1]:0"}, "\"[::1]:0\" has no port from 1 to 65535"},
      {{"decode", "--seed", "99999999999", "x"},
       "\"99999999999\" is out of range: -2147483648 to 2147483647"},
      {{"models", "--version", "3"}, "--version needs the name of a model"},
      {{"decode", "--provisional", "x"}, "--provisional: needs --stream"},
      {{"score", "x"}, "the arguments have a source but no target behind it"},
      {{"score", "x", "y", "--file", "/dev/null"}, "both as arguments and by --file"},
      {{"score", "--file", "/no/such/file"}, "cannot read /no/such/file"},
      {{"score", "--ids", "3", "y"}, "the arguments: \"y\" is not a token id"},
      {{"score", "--coverage-penalty", "-1", "x", "y"}, "out of range: 0 to 100"},
      {{"score", "x", "y\xff"}, "the arguments: not UTF-8 at byte 1"},
      {{"align", "x"}, "no target behind it"},
      {{"recognize"}, "FILE or --features is missing; - reads standard input"},
      {{"recognize", "x.wav", "--features", "/dev/null"}, "FILE and --features exclude each other"},
      {{"recognize", "x.wav", "--json", "--srt"}, "--json and --srt exclude each other"},
      {{"recognize", "x.wav", "--samples", "pcm24"}, "--samples"},
      {{"recognize", "x.wav", "--sample-rate", "7"}, "--sample-rate"},
      {{"recognize", "x.wav", "--channel", "65"}, "--channel"},
      {{"recognize", "x.wav", "--pause-ms", "-1"}, "--pause-ms"},
      {{"explain"}, "SOURCE is required"},
      {{"explain", "--trace", "0", "x"}, "--trace: 0 leaves nothing to explain"},
      {{"explain", "x", "--target", "y\xff"}, "--target: not UTF-8 at byte 1"},
      {{"explain", "x", "--ids"}, "SOURCE: \"x\" is not a token id"},
      {{"capacity"}, "--point is required"},
      {{"capacity", "--point", "8", "--within", "1s"}, "such as 8:420"},
      {{"capacity", "--point", "1:5", "--within", "1s"}, "give --rate or --traffic"},
      {{"capacity", "--point", "1:5", "--within", "1s", "--traffic", "none"}, "cannot read 'none'"},
      {{"capacity", "--point", "1:5", "--within", "1s", "--rate", "9", "--max-rows", "3"},
       "less than one call's beam of 4"},
      {{"load-test"}, "nothing to send"},
      {{"load-test", "--file", "/dev/null"}, "is empty"},
      {{"load-test", "--concurrency", "0", "x"}, "1 to 4096"},
      {{"load-test", "--duration", "48h", "x"}, "1ms to 24h"},
      {{"load-test", "--rate", "0", "x"}, "0.001"},
      {{"load-test", "--arrivals", "even", "x"}, "--rate"},
      {{"load-test", "--rate", "5", "--arrivals", "odd", "x"}, "poisson"},
      {{"load-test", "--concurrency", "1,x", "a"}, "--concurrency: \"x\" is not a number from 1"},
      {{"load-test", "--concurrency", "1.5", "a"}, "1.5 is not a whole number"},
      {{"load-test", "--concurrency", "8..4", "a"}, "\"8..4\" ends before it begins"},
      {{"load-test", "--rate", "1e-3..1e6,1..1e6,1..1e6,1..1e6", "a"}, "more than 64 loads"},
      {{"load-test", "--rate", "1,2", "--concurrency", "1,2", "a"}, "both have several values"},
      {{"load-test", "--concurrency", "1,2", "--histogram", "x", "a"}, "room for one load"},
      {{"load-test", "--fail-if", "p99<script>", "a"}, "\"p99<script>\" is not a condition"},
      {{"load-test", "--fail-if", "p99>50ms,", "a"}, "\"\" is not a condition"},
      {{"load-test", "--fail-if", "p99>50", "a"}, "with a time (p99>50ms)"},
      {{"load-test", "--fail-if", "p75>50ms", "a"}, "\"p75>50ms\" is not a condition"},
      {{"load-test", "--fail-if", "errors>1", "a"}, "errors with a share (errors>1%)"},
      {{"load-test", "--fail-if", "rate<nan", "a"}, "is not a condition"},
      {{"load-test", "--compare", "/no/such/file", "a"}, "--compare: cannot read /no/such/file"},
      {{"load-test", "--compare", "/etc/passwd", "a"}, "is not what 'beamwright load-test --json'"},
      {{"load-test", "--json", "--csv", "a"}, "--json"},
      {{"load-test", "--slo", "p99<5ms", "a"}, "--find-max-rate"},
      {{"load-test", "--find-max-rate", "a"}, "--find-max-rate needs --slo"},
      {{"load-test", "--find-max-rate", "--slo", "p99>5ms", "a"}, "\"p99>5ms\" is not a promise"},
      {{"load-test", "--find-max-rate", "--slo", "mean<5ms", "a"}, "\"mean<5ms\" is not a promise"},
      {{"load-test", "--find-max-rate", "--slo", "errors<0", "a"}, "\"errors<0\" is not a promise"},
      {{"load-test", "--find-max-rate", "--slo", "p99<\x1b[2J", "a"}, "\\x1b[2J"},
      {{"load-test", "--find-max-rate", "--slo", "first<5ms", "a"}, "add --stream"},
      {{"load-test", "--fail-if", "errors>1%,first>5ms", "a"}, "add --stream"},
      {{"load-test", "--cancel", "5:20ms", "a"}, "--cancel: \"5:20ms\" is not a share"},
      {{"load-test", "--cancel", "101%:20ms", "a"}, "is not a share up to 100%"},
      {{"load-test", "--cancel", "5%:0s", "a"}, "with a time of 1ms or more"},
      {{"load-test", "--warmup", "soon", "a"}, "--warmup: \"soon\" is neither a duration"},
      {{"load-test", "--warmup", "nan", "a"}, "\"nan\" is neither"},
      {{"load-test", "--speed", "2", "a"}, "--speed: no line of --mix says"},
      {{"load-test", "--protocol", "soap", "a"}, "native, rest, infer-grpc or infer-http"},
      {{"load-test", "--protocol", "rest", "--stream", "a"}, "--stream: streams are for"},
      {{"load-test", "--protocol", "rest", "--server", "h:x", "a"}, "\"h:x\" has no port"},
      {{"load-test", "--protocol", "rest", "--concurrency", "300", "a"}, "1 to 256"},
      {{"load-merge"}, "FILE is required"},
      {{"load-merge", "/no/such/file"}, "cannot read /no/such/file"},
      {{"health", "a", "b"}, "b"},
  };
  for (const auto& [arguments, message] : cases) {
    const ProcessResult result = Beamwright(arguments);
    EXPECT_EQ(result.exit_code, 2) << message << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err,
                AllOf(StartsWith("beamwright"), HasSubstr(message), HasSubstr("--help")));
  }
}

// As a compiler does: a user who mends one fault wants to know of the others.
TEST(CommandLineTest, AllFaultsAreToldAtOnce) {
  const ProcessResult result =
      Beamwright({"decode", "--beam-size", "0", "--beemsize=3", "--batch", "x", "--length-penalty",
                  "pwo", "--timout", "3", "word"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("beamwright decode: --beam-size: \"0\" is out of range"),
                    HasSubstr("beamwright decode: --batch: \"x\" is not a whole number"),
                    HasSubstr("beamwright decode: --length-penalty: "), HasSubstr("--beemsize=3"),
                    HasSubstr("did you mean --beam-size, --timeout?")));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 5) << result.err;
  // A fault that is reported once is not reported again.
  const ProcessResult two = Beamwright({"load-test", "--rate", "x", "--requests", "-1", "a"});
  EXPECT_EQ(std::count(two.err.begin(), two.err.end(), '\n'), 3) << two.err;
}

TEST(CommandLineTest, HelpIsACommandToo) {
  EXPECT_EQ(Beamwright({"help"}).out, Beamwright({"--help"}).out);
  const ProcessResult help = Beamwright({"help", "load-test"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.out, Beamwright({"load-test", "--help"}).out);
  EXPECT_THAT(help.out, HasSubstr("--find-max-rate"));
}

TEST(CommandLineTest, TheFlagThatIsTypedMostIsShort) {
  FakeServer server;
  EXPECT_EQ(Beamwright({"decode", "--server", server.address(), "-n", "3", "a"}).exit_code, 0);
  EXPECT_EQ(server.requests().back().options().n_best(), 3);
  EXPECT_THAT(Beamwright({"decode", "-n", "x", "a"}).err, HasSubstr("n-best: \"x\" is not"));
}

TEST(CommandLineTest, HelpIsGroupedAndFitsThePage) {
  for (const char* command : {"decode", "models", "health", "load-test"}) {
    const ProcessResult help = Beamwright({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, AllOf(HasSubstr("\nConnection:\n"), HasSubstr("\nOutput:\n"),
                                Not(HasSubstr("\n\n\n"))));
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(help.out, '\n'))) {
      EXPECT_LE(line.size(), 100u) << line;
    }
  }
  EXPECT_THAT(
      Beamwright({"decode", "--help"}).out,
      AllOf(HasSubstr("\nInput:\n"), HasSubstr("\nSearch:\n"), HasSubstr("\nProcessors:\n")));
  EXPECT_THAT(Beamwright({"--version"}).out, StartsWith("beamwright 0."));
}

TEST(ModelsCommandTest, ListsAndDescribes) {
  FakeServer server;
  const std::vector<std::string> environment = {"BEAMWRIGHT_SERVER=" + server.address()};
  const ProcessResult list = Beamwright({"models"}, "", environment);
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_EQ(list.out,
            "name    version  state\n"
            "echo    7        ready\n"
            "                 Says it again, louder\n"
            "broken  1        not ready: its graph is empty\n"
            "idle    2        ready; unused for an hour\n"
            "kept    3        ready; not loaded again: its new graph is empty\n");
  EXPECT_EQ(Python("import json, sys; print([m['ready'] for m in json.load(sys.stdin)['models']])",
                   Beamwright({"models", "--json"}, "", environment).out),
            "[True, False, True, True]\n");
  const ProcessResult one = Beamwright({"models", "echo"}, "", environment);
  EXPECT_THAT(one.out, AllOf(HasSubstr("echo, version 7"), HasSubstr("12,345 ids"),
                             HasSubstr("keys f32 [-1, 64]"), HasSubstr("encoder.xml"),
                             HasSubstr("scorers             news (n-gram model), internal_lm (")));
  const ProcessResult none = Beamwright({"models", "zebra"}, "", environment);
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("NOT_FOUND: there is no model zebra"));
}

TEST(HealthCommandTest, TellsByItsExitCode) {
  FakeServer server;
  const std::vector<std::string> environment = {"BEAMWRIGHT_SERVER=" + server.address()};
  ProcessResult result = Beamwright({"health", "beamwright.v1.DecodeService"}, "", environment);
  EXPECT_EQ(result.out, "SERVING\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  server.set_serving(false);
  result = Beamwright({"health", "--json"}, "", environment);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(Python("import json, sys; print(json.load(sys.stdin)['status'])", result.out),
            "NOT_SERVING\n");
  EXPECT_EQ(Beamwright({"health", "nonsense"}, "", environment).exit_code, 1);
}

TEST(LoadTestCommandTest, ReportsWhatTheServerSaw) {
  FakeServer server;
  const ProcessResult json =
      Beamwright({"load-test", "--server", server.address(), "--requests", "50", "--batch", "2",
                  "--warmup", "0", "--concurrency", "3", "--beam-size", "2", "--json", "a", "bad"});
  EXPECT_EQ(json.exit_code, 1);  // sources failed
  EXPECT_EQ(server.requests().size(), 50u);
  EXPECT_EQ(server.requests()[0].options().beam_size(), 2);
  EXPECT_EQ(Python(R"(
import json, sys
r = json.load(sys.stdin)
assert r["answered_calls"] == 50 and r["decoded_sources"] == 50, r
assert r["failed_sources"] == {"INVALID_ARGUMENT": 50} and r["failed_calls"] == {}, r
assert r["connections"] == 3 and r["concurrency"] == 3 and r["batch"] == 2, r
assert 0 < r["latency_ms"]["p50"] <= r["latency_ms"]["p99"] <= r["latency_ms"]["max"], r
assert abs(r["calls_per_second"] * r["elapsed_seconds"] - 50) < 1e-6, r
print("fine"))",
                   json.out),
            "fine\n");
  const ProcessResult text = Beamwright({"load-test", "--server", server.address(), "--requests",
                                         "5", "--warmup", "0", "--concurrency", "1", "a"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("1 calls in flight of 1 source over 1 connection"),
                              HasSubstr("5 calls answered, 5 sources decoded"),
                              HasSubstr("latency  p50 "), Not(HasSubstr("failed"))));
}

TEST(LoadTestCommandTest, SendsAtARate) {
  FakeServer server([](grpc::ServerContext& context, const v1::DecodeRequest& request,
                       v1::DecodeResponse& response) {
    return request.sources(0).text() == "full"
               ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "queue")
               : EchoAll(context, request, response);
  });
  const ProcessResult json = Beamwright({"load-test", "--server", server.address(), "--requests",
                                         "40", "--warmup", "0", "--rate", "2000", "--arrivals",
                                         "even", "--good-within", "1h", "--json", "a", "full"});
  EXPECT_EQ(json.exit_code, 1);  // calls were refused
  EXPECT_EQ(Python(R"(
import json, sys
r = json.load(sys.stdin)
assert r["rate"] == 2000 and r["concurrency"] == 4096 and r["skipped_calls"] == 0, r
assert r["answered_calls"] == r["good_calls"] == 20, r
assert r["failed_calls"] == {"RESOURCE_EXHAUSTED": 20}, r
assert r["elapsed_seconds"] >= 0.02, r
assert 0 < r["latency_ms"]["p50"] and 0 < r["refused_ms"]["p50"] and "lag_ms" in r, r
print("fine"))",
                   json.out),
            "fine\n");
  const ProcessResult text =
      Beamwright({"load-test", "--server", server.address(), "--requests", "5", "--warmup", "0",
                  "--rate", "500", "--good-within", "1h", "a"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("500 calls/s due, Poisson arrivals, of 1 source"),
                              HasSubstr("calls/s within 1h"), HasSubstr("lag      p50 ")));
}

TEST(LoadTestCommandTest, InterruptPrintsWhatWasMeasured) {
  FakeServer server;
  Process process({BEAMWRIGHT_PROGRAM, "load-test", "--server", server.address(), "--duration",
                   "1h", "--warmup", "0", "a"},
                  "");
  server.WaitForRequests(100);
  ASSERT_EQ(kill(process.pid(), SIGINT), 0);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("(interrupted)"), HasSubstr("calls answered")));
}

TEST(LoadTestCommandTest, GivesUpOnADeadServer) {
  const ProcessResult result = Beamwright({"load-test", "--server", "127.0.0.1:1", "a"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("no server answers at 127.0.0.1:1 (Connection refused)"));
}

TEST(ExampleTest, DecodesAndStandsInTheDocumentation) {
  FakeServer server;
  const ProcessResult result = RunProcess({BEAMWRIGHT_EXAMPLE, server.address(), "hello", "you"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "HELLO\nYOU\n");
  const auto read = [](const std::string& path) {
    std::ifstream file(BEAMWRIGHT_SOURCE_DIR + path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string example = read("/client/examples/decode_words.cc");
  ASSERT_FALSE(example.empty());
  EXPECT_THAT(read("/docs/client.md"), HasSubstr(example));
}

}  // namespace
}  // namespace beamwright::client

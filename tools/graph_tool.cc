// The command line of beamwright-graph: what each command is called, its arguments and flags with
// their help (DefineShow and so on), and the call of the function that does the work (RunCommand).
//
// RunGraphTool parses the arguments, completes those of `init` that the parser leaves as plain text
// (FinishInit: up to three graphs by their position, pairs INPUT=OUTPUT), and runs the command.
// Errors go to `errors` in one line; an error in the command line ends with the flag or command
// that was probably meant (Suggestion). Exit codes: 0 done, 1 failed, 2 wrong command line.
//
// The commands share `Flags`, one member for each command. A Define function binds the members to
// the parser's options, which write into them while the line is parsed; so `Flags` must outlive the
// parser, and no command looks at the options of another one. What belongs together is said to the
// parser and not checked here: `excludes` (--json and --dot, --inputs and --batch), ranges, units
// (AsSizeValue) and lists with commas (delimiter).
#include "tools/graph_tool.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ops/base/names.h"
#include "ops/base/utf8.h"
#include "tools/bundle/check.h"
#include "tools/bundle/cost.h"
#include "tools/bundle/init.h"
#include "tools/graph/commands.h"

namespace beamwright::tools {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr const char* kFile =
    "Graph file: OpenVINO IR (.xml, with its weights in a .bin file of that name), ONNX (.onnx) or "
    "a "
    "part of a Marian model (.bin#encoder, .bin#decoder)";
constexpr int kMaxThreads = 1024;
constexpr int64_t kMaxExtent = int64_t{1} << 30;

struct Flags {
  ops::ShowFlags show;
  ops::RunFlags run;
  CheckFlags check;
  ops::BenchFlags bench;
  CostFlags cost;
  std::vector<std::string> init_graphs;
  std::vector<std::string> init_states;
  bool init_ctc = false;
  bool init_tags = false;
  bool init_decoder = false;
  bool init_transducer = false;
  InitOptions init;
};

void AddLinks(CLI::App* command, std::string& root) {
  command->add_option("--allow-links", root,
                      "Folder that links of the weights' files may lead into, besides the graph "
                      "file's own (default: none)");
}

void DefineShow(CLI::App& app, ops::ShowFlags& flags) {
  CLI::App* show = app.add_subcommand("show", "Print inputs, outputs, nodes and loops of a graph");
  show->footer("Example: beamwright-graph show --dot decoder.onnx | dot -Tsvg -o decoder.svg");
  show->add_option("FILE", flags.file, kFile)->required();
  AddLinks(show, flags.allow_links);
  CLI::Option* json = show->add_flag("--json", flags.json, "Print JSON");
  show->add_flag("--dot", flags.dot, "Print Graphviz text: loops are clusters, back edges dashed")
      ->excludes(json);
}

void DefineRun(CLI::App& app, ops::RunFlags& flags) {
  CLI::App* run = app.add_subcommand("run", "Run a graph once on inputs from a file");
  run->footer(
      "Example: beamwright-graph run decoder.onnx --inputs inputs.npz --outputs outputs.npz");
  run->add_option("FILE", flags.file, kFile)->required();
  AddLinks(run, flags.allow_links);
  run->add_option("--inputs", flags.inputs,
                  "NumPy .npz file with one array for each input, by the names that `show` prints")
      ->required();
  run->add_option("--outputs", flags.outputs,
                  "NumPy .npz file to write, one array for each output; replaced if it exists")
      ->required();
  run->add_option("--threads", flags.threads, "Threads to use at most, 1 to 1024 (default: 1)")
      ->check(CLI::Range(1, kMaxThreads));
  run->add_option(
         "--max-memory", flags.max_memory,
         "Most bytes of all tensors together, inputs and weights among them; KiB, MiB, GiB "
         "behind the number (default: 2GiB, or what machine and cgroup have if that is less)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 60));
  run->add_option("--timeout", flags.timeout_seconds,
                  "Most seconds for all of it, above 0, up to 86400 (default: 60)")
      ->check(CLI::Range(0.001, 86'400.0));
}

void DefineCheck(CLI::App& app, CheckFlags& flags) {
  CLI::App* check =
      app.add_subcommand("check",
                         "Check whether graphs and bundles can be loaded: all that is missing at "
                         "once, and what a search pays for stepping a graph");
  check->footer("Example: beamwright-graph check encoder.onnx decoder.onnx");
  check
      ->add_option("PATH", flags.paths,
                   "Graph file, OpenVINO IR or ONNX, or folder of a model bundle")
      ->required();
  AddLinks(check, flags.allow_links);
}

void DefineBench(CLI::App& app, ops::BenchFlags& flags) {
  CLI::App* bench = app.add_subcommand("bench", "Time runs of a graph on made-up or given inputs");
  bench->footer("Example: beamwright-graph bench decoder.onnx --batch 1,8,64");
  bench->add_option("FILE", flags.file, kFile)->required();
  AddLinks(bench, flags.allow_links);
  CLI::Option* inputs =
      bench->add_option("--inputs", flags.inputs,
                        "NumPy .npz file with one array for each input, instead of made-up ones");
  bench
      ->add_option("--batch", flags.batches,
                   "Extents of axes of rows that the graph leaves open, one or more with commas "
                   "(default: 1)")
      ->excludes(inputs)
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, kMaxExtent));
  bench
      ->add_option("--length", flags.lengths,
                   "Extents of all other open axes; several are all run (default: 16)")
      ->excludes(inputs)
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, kMaxExtent));
  bench->add_option("--threads", flags.threads, "Numbers of threads, 1 to 1024 (default: 1)")
      ->delimiter(',')
      ->check(CLI::Range(1, kMaxThreads));
  bench
      ->add_option("--seconds", flags.seconds,
                   "Time for each combination, 0 to 3600; at least one run (default: 1)")
      ->check(CLI::Range(0.0, 3600.0));
  bench->add_flag("--json", flags.json, "Print JSON");
}

void DefineCost(CLI::App& app, CostFlags& flags) {
  CLI::App* cost = app.add_subcommand(
      "cost",
      "Measure what a request of a model holds and takes on one core, for `beamwright "
      "capacity`");
  cost->footer("Example: beamwright-graph cost models/g2p-en/1 --beam-size 5");
  cost->add_option("MODEL", flags.model,
                   "Folder of a bundle, or of a model, whose newest version is taken")
      ->required();
  cost->add_option("--sources", flags.sources,
                   "File of sources such as users send them, one a line, as text")
      ->required();
  cost->add_option("--beam-size", flags.beam_size, "Beam size, 1 to 256 (default: the model's)")
      ->check(CLI::Range(1, 256));
  cost->add_option("--concurrency", flags.concurrency,
                   "Requests in flight, one or more with commas, 1 to 4096 (default: "
                   "1,2,4,8,16,32)")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  cost->add_option("--seconds", flags.seconds,
                   "Time for each of them, above 0, up to 3600 (default: 3)")
      ->check(CLI::Range(0.001, 3600.0));
}

// In the order in which a user meets them: the graphs; what kind of model they are, where their
// ports leave it open (at most one of the four flags); blank and durations of searches by frames;
// where the bundle goes; vocabularies and special tokens; last the ports, for graphs whose names
// say nothing. Everything but GRAPHS and --out may be left out: `init` guesses it, or writes the
// question into the bundle (OpenQuestions in bundle_folder.cc).
void DefineInit(CLI::App& app, Flags& flags) {
  InitOptions& init = flags.init;
  CLI::App* command = app.add_subcommand(
      "init", "Make a model bundle of graph files, guessing what their ports are for");
  command->footer(
      "Examples:\n"
      "  beamwright-graph init encoder.onnx decoder.onnx --out backwards/1 --source-vocab "
      "source.vocab --target-vocab target.vocab\n"
      "  beamwright-graph init model.enes.intgemm.alphas.bin --source-vocab vocab.enes.spm "
      "--target-vocab vocab.enes.spm --shortlist lex.50.50.enes.s2t.bin --out enes");
  command
      ->add_option(
          "GRAPHS", flags.init_graphs,
          "Graph files: [ENCODER] DECODER; [ENCODER] PREDICTOR JOINER of a transducer, or "
          "[ENCODER] PREDICTOR where one graph is both; MODEL with a CTC output, or with scores of "
          "labels; or a Marian model (.bin, .npz)")
      ->required()
      ->expected(1, 3);
  CLI::Option* ctc = command->add_flag("--ctc", flags.init_ctc,
                                       "The graph is a CTC model, where its ports leave that open");
  CLI::Option* transducer =
      command
          ->add_flag("--transducer", flags.init_transducer,
                     "The graphs are a transducer, where their ports leave that open")
          ->excludes(ctc);
  CLI::Option* tags =
      command
          ->add_flag("--tags", flags.init_tags,
                     "The graph is a tagger, which gives each position of a source a label, where "
                     "its ports leave that open")
          ->excludes(ctc)
          ->excludes(transducer);
  command->add_option("--transitions", init.transitions,
                      "Of a tagger with a CRF: its scores of neighbouring labels, a NumPy archive "
                      "with transitions, start_transitions and end_transitions as pytorch-crf "
                      "names them");
  command
      ->add_flag("--decoder", flags.init_decoder,
                 "The last graph is a decoder that chooses token after token, where its ports "
                 "leave that open")
      ->excludes(ctc)
      ->excludes(transducer)
      ->excludes(tags);
  command->add_option("--blank", init.blank,
                      "Of CTC and transducers: the blank, a token or the number of its column");
  command
      ->add_option("--durations", init.durations,
                   "Of token-and-duration transducers: what the last columns stand for, in frames, "
                   "with commas between")
      ->delimiter(',')
      ->check(CLI::Range(0, 1000));
  command->add_option("--out", init.out, "Folder to make: the bundle")->required();
  command->add_option("--name", init.name, "Name in requests (default: the folder's name)");
  command->add_option("--source-vocab,--source-vocabulary", init.source_vocab,
                      "Source vocabulary: one token a line, or a SentencePiece .model or .spm");
  command->add_option(
      "--target-vocab,--target-vocabulary,--tokens", init.target_vocab,
      "Target vocabulary, in the same forms; of CTC and transducers a tokens.txt with 'TOKEN "
      "ID' a line or a vocab.json, too; of taggers the labels, in these forms");
  command->add_option("--shortlist", init.shortlist,
                      "Binary lexical shortlist of a Marian model (lex.*.s2t.bin)");
  command->add_option(
      "--token-ids", init.token_ids,
      "Of a model of OPUS-MT: the file that numbers the pieces of both SentencePiece "
      "models (*.vocab.yml, vocab.json)");
  command->add_option("--from", init.source_language,
                      "Of a Marian model: the language that it translates, such as en (default: "
                      "that of the file name model.enfr.*)");
  command->add_option("--to", init.target_language, "The language that it translates to, likewise");
  command->add_option("--begin", init.special.begin,
                      "Target token that the first step reads, by its text; without a target "
                      "vocabulary its id");
  command
      ->add_option("--end", init.special.ends,
                   "Target token that ends a hypothesis, text or id; may be repeated")
      ->expected(1)
      ->take_all();
  command->add_option("--source-begin", init.special.source_begin,
                      "Source token before each source, text or id; '' for none");
  command->add_option("--source-end", init.special.source_end,
                      "Source token after each source, text or id; '' for none");
  command->add_option(
      "--pairs", init.pairs,
      "File of known sources and targets, 'SOURCE<tab>TARGET' a line, that the model "
      "was trained on: they show which special tokens it expects");
  command->add_option("--source-input", init.source_input,
                      "The encoder's input for the source, if it has others");
  command
      ->add_option("--length-axis", init.length_axis,
                   "Axis of the encoder's input that counts as the source's length; axis 0 is "
                   "that of the rows. 0: the input is [length, rows, ...]")
      ->check(CLI::Range(0, 31));
  command
      ->add_option("--input-shape", init.input_shape,
                   "Extents of the encoder's input behind its rows, where the export left more "
                   "than the length open: 3,48,-1 for pictures that are 48 high")
      ->delimiter(',');
  command->add_option("--token-input", init.hints.token_input, "The decoder's input for tokens");
  command->add_option("--logits-output", init.hints.logits_output, "The decoder's logits");
  command
      ->add_option("--state", flags.init_states,
                   "INPUT=OUTPUT: a state of a step graph; may be repeated")
      ->expected(1)
      ->take_all();
  command
      ->add_option("--replay", init.replay,
                   "INPUTS.npz OUTPUTS.npz: run the decoder on these inputs first and compare")
      ->expected(2);
}

void DefineCommands(CLI::App& app, Flags& flags) {
  app.require_subcommand(1);
  app.set_version_flag("--version", "beamwright-graph " BEAMWRIGHT_VERSION,
                       "Print the version and exit");
  app.footer(
      "'beamwright-graph help COMMAND' explains a command.\n"
      "Example: beamwright-graph show decoder.onnx\n"
      "Exit codes: 0 done, 1 bad file or input, 2 bad command line.");
  DefineShow(app, flags.show);
  DefineRun(app, flags.run);
  DefineCheck(app, flags.check);
  DefineBench(app, flags.bench);
  DefineCost(app, flags.cost);
  DefineInit(app, flags);
  app.add_subcommand("operators", "List the operators that graphs may contain, as Markdown tables")
      ->footer("Example: beamwright-graph operators | less");
}

// Positions and pairs that the parser leaves as plain text.
void FinishInit(Flags& flags) {
  const std::vector<std::string>& graphs = flags.init_graphs;
  flags.init.decoder = graphs.size() == 3 ? graphs[1] : graphs.back();
  if (graphs.size() > 1) {
    flags.init.encoder = graphs.front();
  }
  if (graphs.size() == 3) {
    flags.init.joiner = graphs.back();
  }
  flags.init.kind = flags.init_ctc          ? InitKind::kCtc
                    : flags.init_transducer ? InitKind::kTransducer
                    : flags.init_tags       ? InitKind::kTags
                    : flags.init_decoder    ? InitKind::kDecoder
                                            : InitKind::kGuess;
  for (const std::string& state : flags.init_states) {
    const std::vector<std::string> pair = absl::StrSplit(state, absl::MaxSplits('=', 1));
    if (pair.size() != 2 || pair[0].empty() || pair[1].empty()) {
      throw CLI::ValidationError("--state", absl::StrCat("'", state, "' is not INPUT=OUTPUT"));
    }
    if (!flags.init.hints.states.emplace(pair[0], pair[1]).second) {
      throw CLI::ValidationError("--state", absl::StrCat("'", pair[0], "' is given twice"));
    }
  }
}

// Exactly one command is there: the parser requires it (require_subcommand). A name that is not one
// of the others is `operators`, which has no flags.
absl::Status RunCommand(const CLI::App& app, const Flags& flags, std::ostream& output) {
  if (app.got_subcommand("show")) {
    return ops::Show(flags.show, output);
  }
  if (app.got_subcommand("run")) {
    return ops::Run(flags.run, output);
  }
  if (app.got_subcommand("check")) {
    return Check(flags.check, output);
  }
  if (app.got_subcommand("bench")) {
    return ops::Bench(flags.bench, output);
  }
  if (app.got_subcommand("cost")) {
    return Cost(flags.cost, output);
  }
  if (app.got_subcommand("init")) {
    return InitBundle(flags.init, output);
  }
  ops::ListOperators(output);
  return absl::OkStatus();
}

// "; did you mean init?" for a command that does not exist, "; did you mean --out?" for flags of
// one that does.
std::string Suggestion(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->parsed()) {
      return FlagSuggestions(*command);
    }
    names.push_back(command->get_name());
  }
  const std::string meant = arguments.empty() ? "" : NearestName(arguments[0], names);
  return meant.empty() ? "" : absl::StrCat("; did you mean ", meant, "?");
}

}  // namespace

// 1. `help COMMAND` becomes `COMMAND --help`.
// 2. The line is parsed. The parser takes arguments from the back of its list, hence the reversed
//    copy. Help and version are thrown as exceptions, which are successes here.
// 3. An error names what was not understood and the nearest name that exists; control characters of
//    an argument are escaped (Printable), since they would reach a terminal.
// 4. The command runs, and standard output is flushed: a full disk is an error of this program, not
//    of the next one in a pipe.
int RunGraphTool(int argc, const char* const* argv, std::ostream& output, std::ostream& errors) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments[0] == "help") {  // "help init" is "init --help"
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  Flags flags;
  CLI::App app("Looks at graph files, runs them and makes model bundles of them.",
               "beamwright-graph");
  DefineCommands(app, flags);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    if (app.got_subcommand("init")) {
      FinishInit(flags);
    }
  } catch (const CLI::CallForHelp&) {
    output << app.help();
    return kDone;
  } catch (const CLI::CallForVersion& version) {
    output << version.what() << "\n";
    return kDone;
  } catch (const CLI::ParseError& error) {
    errors << "beamwright-graph: " << Printable(error.what());
    for (const std::string& argument : app.remaining()) {
      errors << "; not understood: '" << Printable(argument) << "'";
    }
    errors << Suggestion(app, arguments) << " (--help says more)\n";
    return kUsage;
  }
  const absl::Status status = RunCommand(app, flags, output);
  if (!status.ok()) {
    errors << "beamwright-graph: " << Printable(status.message()) << "\n";
    return kFailed;
  }
  if (!output.flush()) {
    errors << "beamwright-graph: cannot write to standard output\n";
    return kFailed;
  }
  return kDone;
}

}  // namespace beamwright::tools

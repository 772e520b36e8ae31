# Template of the Homebrew formula: scripts/package fills in the placeholders between @ signs. For a tap: Formula/zklockbench.rb.
class Zklockbench < Formula
  desc "Load-testing and benchmarking of ZooKeeper lock strategies"
  homepage "@REPOSITORY@"
  url "@REPOSITORY@/releases/download/v@VERSION@/zklockbench-@VERSION@-source.tar.gz"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  # Only for local servers; an existing ensemble can be measured without these packages.
  depends_on "openjdk"
  depends_on "zookeeper"

  def install
    system "cargo", "install", *std_cargo_args
    generate_completions_from_executable(bin/"zklockbench", "completions")
    system bin/"zklockbench", "man", "--out", "man"
    man1.install Dir["man/*.1"]
    pkgshare.install "scenarios"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/zklockbench --version")
    system bin/"zklockbench", "validate", pkgshare/"scenarios/quick.toml"
  end
end

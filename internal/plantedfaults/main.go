// Plantedfaults shows that the tests of steady can fail. It plants small faults in the core, at least one
// against each rule of docs/design.md, one at a time and in a copy of the module, and runs the test or fuzz
// target that is to catch it.
//
//	go run ./internal/plantedfaults
//	go run ./internal/plantedfaults -rule='B\d+' -run=probe -parallel=2
//
// The faults are in faults.go. Progress goes to the standard error, and a Markdown table of what caught
// what to the standard output. A fault that survives, does not compile, or whose text is not there exactly
// once makes the exit status 1.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// fault is one small mistake in the core.
type fault struct {
	rule     string // of docs/design.md, that it breaks
	name     string // what the code does with it
	file     string // of the core
	old, new string // old is there once
	test     string // the test or fuzz target that is to catch it
}

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", ".", "the module's `directory`")
	rule := flag.String("rule", "", "only faults against rules that match this `regexp` as a whole")
	run := flag.String("run", "", "only faults whose name or test matches this `regexp`")
	parallel := flag.Int("parallel", 1, "how many to try at a time; each compiles on all processors")
	flag.Parse()

	chosen := choose(compile("^(?:"+*rule+")$"), compile(*run), *rule == "")
	if len(chosen) == 0 {
		log.Fatal("no fault is named so")
	}
	if err := withoutFaults(*dir, chosen); err != nil {
		log.Fatal(err)
	}
	verdicts, caught := plantAll(*dir, chosen, max(*parallel, 1))

	fmt.Println("| rule | fault | caught by |\n|---|---|---|")
	for i, f := range chosen {
		fmt.Printf("| %s | %s | %s |\n", f.rule, f.name, verdicts[i])
	}
	fmt.Printf("\n%d of %d caught.\n", caught, len(chosen))
	if caught < len(chosen) {
		os.Exit(1)
	}
}

func compile(expr string) *regexp.Regexp {
	re, err := regexp.Compile(expr)
	if err != nil {
		log.Fatal(err)
	}
	return re
}

func choose(rule, run *regexp.Regexp, anyRule bool) (chosen []fault) {
	for _, f := range faults {
		if (anyRule || rule.MatchString(f.rule)) && (run.MatchString(f.name) || run.MatchString(f.test)) {
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// withoutFaults makes sure that the tests pass as long as nothing is planted: what fails anyway catches
// nothing.
func withoutFaults(dir string, chosen []fault) error {
	var tests []string
	for _, f := range chosen {
		tests = append(tests, f.test)
	}
	log.Print("the tests without a fault ...")
	out, err := goTest(dir, "-run=^("+strings.Join(tests, "|")+")$", "-count=1", "-timeout=300s")
	if err != nil {
		return fmt.Errorf("without any fault:\n%s%w", out, err)
	}
	return nil
}

// plantAll tries the faults, so many at a time, and returns what became of each.
func plantAll(dir string, chosen []fault, workers int) (verdicts []string, caught int) {
	verdicts = make([]string, len(chosen))
	next := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range workers {
		wg.Go(func() {
			for i := range next {
				began := time.Now()
				verdict, err := plant(dir, chosen[i])
				if err != nil {
					verdict = "**nothing: " + err.Error() + "**"
				}
				mu.Lock()
				verdicts[i] = verdict
				if err == nil {
					caught++
				}
				log.Printf("%3d/%d %4.1fs  %s: %s: %s", i+1, len(chosen), time.Since(began).Seconds(), chosen[i].rule, chosen[i].name, verdict)
				mu.Unlock()
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	wg.Wait()
	return verdicts, caught
}

// plant tries one fault in a copy of the module. It returns what caught it, or an error if nothing did.
func plant(dir string, f fault) (string, error) {
	tmp, err := os.MkdirTemp("", "plantedfaults")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	module := filepath.Join(tmp, "module")
	if err := copyModule(module, dir); err != nil {
		return "", err
	}
	source, err := os.ReadFile(filepath.Join(module, f.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), f.old); n != 1 {
		return "", fmt.Errorf("its text is there %d times", n)
	}
	source = []byte(strings.Replace(string(source), f.old, f.new, 1))
	if err := os.WriteFile(filepath.Join(module, f.file), source, 0o600); err != nil {
		return "", err
	}

	out, err := goTest(module, "-run=^"+f.test+"$", "-count=1", "-timeout=60s")
	switch {
	case strings.Contains(out, "[build failed]"):
		return "", fmt.Errorf("it does not compile: %s", compileError(out))
	case strings.Contains(out, "panic: test timed out"): // on a busy machine a sound one does too
		return "", fmt.Errorf("%s does not end", f.test)
	case strings.Contains(out, "no tests to run"):
		return "", fmt.Errorf("there is no %s", f.test)
	case err != nil && testFailure.MatchString(out):
		return "`" + f.test + "`" + how(out), nil
	case err != nil:
		return "", fmt.Errorf("%w, and no test has failed: %s", err, lastLine(out))
	case !strings.HasPrefix(f.test, "Fuzz"):
		return "", errors.New("it survived " + f.test)
	}
	began := time.Now()
	out, err = goTest(module, "-run=NONE", "-fuzz=^"+f.test+"$", "-fuzztime=60s", "-fuzzminimizetime=200x", "-parallel=1",
		"-test.fuzzcachedir="+filepath.Join(tmp, "corpus"))
	switch {
	case err == nil:
		return "", errors.New("it survived 60 s of " + f.test)
	case !strings.Contains(out, "Failing input written to "):
		return "", fmt.Errorf("%w, and no input has failed: %s", err, lastLine(out))
	}
	return fmt.Sprintf("`%s`, fuzzing for %.0f s", f.test, time.Since(began).Seconds()), nil
}

func goTest(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", append(append([]string{"test", "-vet=off"}, args...), ".")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	// What a test prints that fails, or ends the process; one that was killed from outside catches nothing.
	testFailure   = regexp.MustCompile(`(?m)^\s*--- FAIL: |^panic: |^fatal error: |^goleak: `)
	failedSeed    = regexp.MustCompile(`--- FAIL: Fuzz\w+/(\S+)`)
	compilerError = regexp.MustCompile(`(?m)^\S+\.go:\d+:.*`)
)

// how says more of a test's failure.
func how(out string) string {
	if seed := failedSeed.FindStringSubmatch(out); seed != nil {
		return ", seed `" + seed[1] + "`"
	}
	return ""
}

func compileError(out string) string {
	if line := compilerError.FindString(out); line != "" {
		return line
	}
	return lastLine(out)
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// copyModule copies what the tests of the module's root need.
func copyModule(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir() && rel != "." && rel != "docs" && !strings.HasPrefix(rel, "testdata"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
}

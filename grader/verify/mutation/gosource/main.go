// Command gosource prints every small change of Go files, one JSON object a line.
//
//	go run main.go ROOT FILE…
//
// The kinds are those of python_source.py. Offsets are bytes of the file.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

type edit struct {
	File     string `json:"file"`
	Function string `json:"function"`
	Kind     string `json:"kind"`
	Line     int    `json:"line"`
	Start    int    `json:"start"`
	End      int    `json:"end"`
	Before   string `json:"before"`
	After    string `json:"after"`
}

var comparisons = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.EQL: "!=", token.NEQ: "==",
}

// telling names what only tells somebody something.
var telling = map[string]bool{"klog": true, "log": true, "logger": true, "fmt": true, "slog": true}

type mutator struct {
	file     string
	source   []byte
	set      *token.FileSet
	function string
	out      *json.Encoder
}

func main() {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, file := range os.Args[2:] {
		if err := mutate(os.Args[1], file, out); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func mutate(root, file string, out *json.Encoder) error {
	source, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return err
	}
	m := &mutator{file: file, source: source, set: token.NewFileSet(), out: out}
	parsed, err := parser.ParseFile(m.set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, declared := range parsed.Decls {
		switch d := declared.(type) {
		case *ast.FuncDecl:
			m.function = d.Name.Name
			if d.Recv != nil && len(d.Recv.List) > 0 {
				m.function = strings.TrimPrefix(m.text(d.Recv.List[0].Type), "*") + "." + m.function
			}
			if d.Body != nil {
				m.walk(d.Body)
				m.oldForNew(d.Type, d.Body)
			}
		case *ast.GenDecl:
			if d.Tok == token.VAR || d.Tok == token.CONST {
				m.function = "file"
				m.walk(d)
			}
		}
	}
	return nil
}

func (m *mutator) offsets(n ast.Node) (int, int) {
	return m.set.Position(n.Pos()).Offset, m.set.Position(n.End()).Offset
}

func (m *mutator) text(n ast.Node) string {
	start, end := m.offsets(n)
	return string(m.source[start:end])
}

func (m *mutator) replace(kind string, start, end int, after string) {
	before := string(m.source[start:end])
	if before == after {
		return
	}
	line := 1 + strings.Count(string(m.source[:start]), "\n")
	_ = m.out.Encode(edit{m.file, m.function, kind, line, start, end, before, after})
}

func (m *mutator) change(kind string, n ast.Node, after string) {
	start, end := m.offsets(n)
	m.replace(kind, start, end, after)
}

func (m *mutator) walk(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ExprStmt:
			if tells(n.X) {
				return false
			}
			m.change("drop", n, "")
		case *ast.DeferStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
			m.change("drop", n, "")
		case *ast.BranchStmt:
			m.change("drop", n, "")
		case *ast.AssignStmt:
			// A new name that nobody uses does not compile; the others may be left out.
			if n.Tok != token.DEFINE {
				m.change("drop", n, "")
			}
		case *ast.ReturnStmt:
			m.returned(n)
		case *ast.IfStmt:
			m.condition(n.Cond)
		case *ast.ForStmt:
			if n.Cond != nil {
				m.condition(n.Cond)
			}
		case *ast.BinaryExpr:
			m.binary(n)
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				m.change("compare", n, m.text(n.X))
			}
		case *ast.BasicLit:
			if n.Kind == token.INT || n.Kind == token.FLOAT {
				m.change("constant", n, "("+n.Value+" + 1)")
				if n.Value != "0" {
					m.change("constant", n, "0")
				}
			}
		case *ast.Ident:
			switch n.Name {
			case "true":
				m.change("constant", n, "false")
			case "false":
				m.change("constant", n, "true")
			}
		case *ast.CompositeLit:
			for _, element := range n.Elts {
				m.leftOut(element)
			}
		case *ast.CaseClause:
			if len(n.Body) > 0 {
				start, _ := m.offsets(n.Body[0])
				_, end := m.offsets(n.Body[len(n.Body)-1])
				m.replace("drop", start, end, "")
			}
		case *ast.CallExpr:
			return !tells(n)
		}
		return true
	})
}

// returned leaves a return out, and swallows the error that it hands up.
func (m *mutator) returned(n *ast.ReturnStmt) {
	if len(n.Results) == 0 {
		m.change("drop", n, "")
		return
	}
	last := n.Results[len(n.Results)-1]
	text := m.text(last)
	if strings.Contains(strings.ToLower(text), "err") && text != "nil" {
		m.change("swallow", last, "nil")
	}
}

func (m *mutator) condition(n ast.Expr) {
	m.change("always", n, "(("+m.text(n)+") || true)")
	m.change("never", n, "(("+m.text(n)+") && false)")
}

func (m *mutator) binary(n *ast.BinaryExpr) {
	if after, ok := comparisons[n.Op]; ok {
		m.change("compare", n, m.text(n.X)+" "+after+" "+m.text(n.Y))
	}
	if n.Op == token.LAND || n.Op == token.LOR {
		m.change("operand", n, "("+m.text(n.X)+")")
		m.change("operand", n, "("+m.text(n.Y)+")")
	}
}

// leftOut leaves an element of a literal out, with the comma after it.
func (m *mutator) leftOut(n ast.Expr) {
	start, end := m.offsets(n)
	for end < len(m.source) && (m.source[end] == ' ' || m.source[end] == '\t') {
		end++
	}
	if end < len(m.source) && m.source[end] == ',' {
		end++
	} else {
		_, end = m.offsets(n)
	}
	m.replace("entry", start, end, "")
}

func (m *mutator) oldForNew(signature *ast.FuncType, body *ast.BlockStmt) {
	named := map[string]bool{}
	for _, field := range signature.Params.List {
		for _, name := range field.Names {
			named[name.Name] = true
		}
	}
	other := map[string]string{"old": "new", "new": "old", "oldObj": "newObj", "newObj": "oldObj"}
	ast.Inspect(body, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && named[name.Name] && named[other[name.Name]] {
			m.change("old-new", name, other[name.Name])
		}
		return true
	})
}

func tells(n ast.Expr) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	for {
		switch f := call.Fun.(type) {
		case *ast.SelectorExpr:
			switch x := f.X.(type) {
			case *ast.Ident:
				return telling[x.Name] && !strings.HasPrefix(f.Sel.Name, "Errorf")
			case *ast.CallExpr:
				call = x
				continue
			}
		}
		return false
	}
}

// Command symbols prints where the named things of Go files are.
//
// It reads file names from standard input, one a line, and writes one JSON
// object to standard output: for each file its symbols (functions, methods as
// Type.method, types, their fields and methods as Type.field, constants and
// variables) and the lines that are comment from end to end. Lines are 1-based, both
// ends included.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
)

type span [2]int

type facts struct {
	Symbols  map[string]span `json:"symbols"`
	Comments []span          `json:"comments"`
}

func main() {
	found := map[string]*facts{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		of, err := read(lines.Text())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		found[lines.Text()] = of
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(name string) (*facts, error) {
	source, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	of := &facts{Symbols: map[string]span{}, Comments: []span{}}
	at := func(node ast.Node) span {
		// PositionFor without adjusting: a //line directive must not move lines.
		return span{fset.PositionFor(node.Pos(), false).Line, fset.PositionFor(node.End(), false).Line}
	}
	add := func(name string, lines span) {
		// init and _ may be declared many times over: each keeps a name of its own.
		unique := name
		for i := 2; ; i++ {
			if _, taken := of.Symbols[unique]; !taken {
				break
			}
			unique = fmt.Sprintf("%s#%d", name, i)
		}
		of.Symbols[unique] = lines
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil && len(d.Recv.List) > 0 {
				add(receiver(d.Recv.List[0].Type)+"."+d.Name.Name, at(d))
			} else {
				add(d.Name.Name, at(d))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				lines := at(spec)
				if !d.Lparen.IsValid() {
					lines = at(d)
				}
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name.Name, lines)
					members(s, at, add)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						add(name.Name, lines)
					}
				}
			}
		}
	}
	lines := bytes.Split(source, []byte("\n"))
	for _, group := range file.Comments {
		for _, comment := range group.List {
			from, to := fset.PositionFor(comment.Pos(), false), fset.PositionFor(comment.End(), false)
			before, after := lines[from.Line-1][:from.Column-1], lines[to.Line-1][to.Column-1:]
			if len(bytes.TrimSpace(before)) > 0 || len(bytes.TrimSpace(after)) > 0 {
				continue // it shares a line with code
			}
			if n := len(of.Comments); n > 0 && of.Comments[n-1][1]+1 == from.Line {
				of.Comments[n-1][1] = to.Line
			} else {
				of.Comments = append(of.Comments, span{from.Line, to.Line})
			}
		}
	}
	return of, nil
}

// members adds a struct's fields and an interface's methods.
func members(s *ast.TypeSpec, at func(ast.Node) span, add func(string, span)) {
	var list *ast.FieldList
	switch t := s.Type.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			add(s.Name.Name+"."+name.Name, at(field))
		}
	}
}

// receiver is the type's name, without the star and the type parameters.
func receiver(t ast.Expr) string {
	switch e := t.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.ParenExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
